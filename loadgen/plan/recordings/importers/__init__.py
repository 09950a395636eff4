"""Importers of other people's recordings and traces: one file each, and the table of them."""

from collections.abc import Callable
from dataclasses import dataclass

from loadgen.errors import UsageError
from loadgen.plan.recordings.importers import (
    aiperf,
    aiperf_inputs,
    azure,
    bailian,
    burstgpt,
    har,
    langfuse,
    litellm,
    mitmproxy,
    mooncake,
    openai_batch,
    own,
    rrpair,
    sharegpt,
    vllm,
    vllm_dataset,
)
from loadgen.plan.recordings.importers.content import Content
from loadgen.plan.recordings.importers.found import Reader
from loadgen.plan.recordings.importers.sample import Sample, sample_of


@dataclass(frozen=True, slots=True)
class Source:
    """One kind: how it is told from others by what it begins with, and read."""

    name: str
    tells: Callable[[Sample], bool]
    read: Reader


def recognise(content: Content) -> Source:
    """Return the kind of a source by its content, never by its name; raises UsageError."""
    sample = sample_of(content)
    found = next((source for source in SOURCES.values() if source.tells(sample)), None)
    if found is None:
        begins = "an empty folder" if content.folder and not sample.head else repr(sample.head[:40])[1:]
        raise UsageError(
            f"{content.name}: no recording or trace that is known; it begins with {begins}",
            hint=f"there are {', '.join(SOURCES)}",
        )
    return found


OWN = "loadgen"
SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(OWN, own.tells, own.read),
        Source("openai-batch", openai_batch.tells, openai_batch.read),
        Source("sharegpt", sharegpt.tells, sharegpt.read),
        Source("har", har.tells, har.read),
        Source("rrpair", rrpair.tells, rrpair.read),
        Source("litellm", litellm.tells, litellm.read),
        Source("langfuse", langfuse.tells, langfuse.read),
        Source("aiperf", aiperf.tells, aiperf.read),
        Source("aiperf-inputs", aiperf_inputs.tells, aiperf_inputs.read),
        Source("vllm", vllm.tells, vllm.read),
        Source("vllm-dataset", vllm_dataset.tells, vllm_dataset.read),
        Source("mitmproxy", mitmproxy.tells, mitmproxy.read),
        Source("mooncake", mooncake.tells, mooncake.read),
        Source("bailian", bailian.tells, bailian.read),
        Source("azure", azure.tells, azure.read),
        Source("burstgpt", burstgpt.tells, burstgpt.read),
    )
}
