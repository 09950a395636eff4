"""Scraped metrics, by hand-computed values: totals over resets, buckets over replicas, gauges, and what goes wrong."""

import math
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.folder import closed, folder_of, ns, stream

from loadgen.cli.summary import close_run
from loadgen.report.dialects import DIALECTS, SERVER_METRICS
from loadgen.report.server import quantile
from loadgen.results.record import Scrape
from loadgen.results.scrapes import OPEN_METRICS

A, B = "http://127.0.0.1:8000/metrics", "http://127.0.0.1:8001/metrics"
ROWS = [stream(0, 0, [100, 200]), stream(1, 1000, [300, 400])]


def page(at: float, text: str, *, of: str = A, kind: str = "text/plain", failure: str | None = None) -> Scrape:
    """What one scrape brought, `at` ms after the run's start."""
    return Scrape(
        at_ns=ns(at), replica=of, failure=failure, content_type=kind, server="test", body=text.encode()
    )  # fmt: skip


def counter(value: float | str, name: str = "vllm:generation_tokens", labels: str = 'engine="0"') -> str:
    return f"# TYPE {name}_total counter\n{name}_total{{{labels}}} {value}\n"


def gauge(value: float | str, name: str = "vllm:num_requests_running") -> str:
    return f"# TYPE {name} gauge\n{name} {value}\n"


def histogram(
    counts: dict[str, float], total: float, *, name: str = "vllm:request_queue_time_seconds", labels: str = "", end="\n"
) -> str:
    lines = [f"# TYPE {name} histogram"]
    comma = "," if labels else ""
    lines += [f'{name}_bucket{{{labels}{comma}le="{le}"}} {count}' for le, count in counts.items()]
    return "\n".join([*lines, f"{name}_count{{{labels}}} {counts['+Inf']}", f"{name}_sum{{{labels}}} {total}"]) + end


def server_of(path: Path, *pages: Scrape, warmup: float = 0.0) -> dict[str, Any]:
    rundir = folder_of(path / "run", [*pages, *ROWS, closed(9000)], due=[0, 1000], length=2000, warmup=warmup)
    found: dict[str, Any] = close_run(rundir)["server"]
    return found


def total(server: dict[str, Any], name: str = "output_tokens") -> float:
    return server["metrics"][name]["total"]


def test_a_counter_is_what_it_grew_by_from_before_the_window(tmp_path):
    pages = [page(at, counter(value)) for at, value in ((-900, 100), (1000, 140), (5000, 160))]

    assert 60 == total(server_of(tmp_path, *pages))


def test_what_grew_in_the_warm_up_is_left_out(tmp_path):
    pages = [page(at, counter(value)) for at, value in ((-900, 100), (1000, 140), (1900, 150), (5000, 160))]

    assert 10 == total(server_of(tmp_path, *pages, warmup=2000))


def test_a_counter_that_was_reset_goes_on_from_zero(tmp_path):
    server = server_of(
        tmp_path, *(page(at, counter(value)) for at, value in ((-900, 100), (1000, 130), (2000, 7), (3000, 9)))
    )

    assert 30 + 7 + 2 == total(server)
    assert any("counted anew before 2.0 s" in alert for alert in server["alerts"])


def test_resets_are_found_before_replicas_are_summed(tmp_path):
    pages = [page(at, counter(value)) for at, value in ((-900, 100), (1000, 5), (2000, 8))]
    pages += [page(at, counter(value), of=B) for at, value in ((-900, 1000), (1000, 1100), (2000, 1200))]

    assert (5 + 3) + 200 == total(server_of(tmp_path, *pages))


def test_a_series_that_is_new_on_a_known_page_began_from_zero(tmp_path):
    first = counter(3, "vllm:request_success", 'finished_reason="stop"')
    second = first + 'vllm:request_success_total{finished_reason="length"} 4\n'

    assert 4 == total(server_of(tmp_path, page(-900, first), page(1000, second)), "ended")


def test_a_replica_that_appears_late_counts_from_then_and_is_told_of(tmp_path):
    pages = [page(at, "", of=B, failure="refused") for at in (-900, 500)]
    pages += [page(at, counter(value), of=B) for at, value in ((1500, 50), (2500, 60))]
    server = server_of(tmp_path, page(-900, counter(0)), page(2500, counter(1)), *pages)

    assert 1 + 10 == total(server)
    assert f"{B} appeared 1.5 s into the run: the totals lack what it counted before" in server["alerts"]
    assert f"{B}: 2 of 4 scrapes failed, the last one: refused" in server["alerts"]


def test_a_replica_that_falls_silent_is_told_of(tmp_path):
    pages = [page(-900, counter(0)), page(1000, counter(4)), page(2000, "", failure="no answer in 5 s")]
    server = server_of(tmp_path, *pages)

    assert 4 == total(server)
    assert any("told nothing after 1.0 s" in alert for alert in server["alerts"])


def test_histograms_of_replicas_are_added_by_bucket_never_averaged(tmp_path):
    none = {"0.1": 0, "1": 0, "10": 0, "+Inf": 0}
    # A: 90 quick; B: 10 slow. By their own p95s, 95 ms and 9.5 s, the mean would be near 5 s.
    pages = [page(-900, histogram(none, 0)), page(-900, histogram(none, 0), of=B)]
    pages += [page(2000, histogram({"0.1": 90, "1": 90, "10": 90, "+Inf": 90}, 4.5))]
    pages += [page(2000, histogram({"0.1": 0, "1": 0, "10": 10, "+Inf": 10}, 50.0), of=B)]
    queue = server_of(tmp_path, *pages)["metrics"]["queue_time"]

    assert (100, 545.0) == (queue["n"], pytest.approx(queue["mean"]))
    assert [1000.0, 10000.0] == queue["p95_between"]
    assert [0.0, 100.0] == queue["p50_between"]
    assert 5500.0 == pytest.approx(queue["p95"])


def test_replicas_with_other_buckets_are_added_where_they_agree(tmp_path):
    pages = [
        page(-900, histogram({"1": 0, "2": 0, "+Inf": 0}, 0)),
        page(-900, histogram({"1": 0, "5": 0, "+Inf": 0}, 0), of=B),
    ]
    pages += [
        page(2000, histogram({"1": 5, "2": 10, "+Inf": 10}, 0)),
        page(2000, histogram({"1": 5, "5": 10, "+Inf": 10}, 0), of=B),
    ]
    queue = server_of(tmp_path, *pages)["metrics"]["queue_time"]

    assert [0.0, 1000.0] == queue["p50_between"]
    assert [1000.0, None] == queue["p95_between"]


def test_a_bucket_that_is_not_a_number_is_left_out(tmp_path):
    text = 'vllm:request_queue_time_seconds_bucket{le="1"}'
    pages = [
        page(-900, histogram({"1": 0, "2": 0, "+Inf": 0}, 0)),
        page(2000, histogram({"1": 5, "2": 10, "+Inf": 10}, 9)),
    ]
    broken = replaced(pages[1], f"{text} 5", f"{text} NaN")
    queue = server_of(tmp_path, pages[0], broken)["metrics"]["queue_time"]

    assert (10, 900.0) == (queue["n"], queue["mean"])


def replaced(one: Scrape, old: str, new: str) -> Scrape:
    assert old.encode() in one.body
    return msgspec.structs.replace(one, body=one.body.replace(old.encode(), new.encode()))


def test_gauges_have_least_mean_and_most_over_the_window_and_all_replicas(tmp_path):
    pages = [page(at, gauge(value)) for at, value in ((-900, 0), (500, 4), (1500, 8), (6000, 99))]
    pages += [page(at, gauge(value), of=B) for at, value in ((-900, 0), (500, 1), (1500, 3), (6000, 99))]
    running = server_of(tmp_path, *pages)["metrics"]["running"]

    assert (0, 16 / 3, 11) == (running["min"], running["mean"], running["max"])


def test_a_share_is_the_mean_of_the_replicas(tmp_path):
    pages = [page(500, gauge(0.2, "vllm:kv_cache_usage_perc")), page(500, gauge(0.6, "vllm:kv_cache_usage_perc"), of=B)]

    assert 0.4 == pytest.approx(server_of(tmp_path, *pages)["metrics"]["kv_cache_usage"]["mean"])


def test_open_metrics_with_exemplars_are_read(tmp_path):
    def text(count: int) -> str:
        return (
            "# TYPE vllm:request_queue_time_seconds histogram\n"
            f'vllm:request_queue_time_seconds_bucket{{le="1.0"}} {count} # {{trace_id="abc"}} 0.5 1.0\n'
            f'vllm:request_queue_time_seconds_bucket{{le="+Inf"}} {count}\n'
            f"vllm:request_queue_time_seconds_count {count}\nvllm:request_queue_time_seconds_sum {count / 2}\n# EOF\n"
        )

    server = server_of(tmp_path, *(page(at, text(count), kind=OPEN_METRICS) for at, count in ((-900, 2), (2000, 12))))

    assert (10, 500.0) == (server["metrics"]["queue_time"]["n"], server["metrics"]["queue_time"]["mean"])


@pytest.mark.parametrize(
    "body",
    [
        b"<html>not found</html>",
        b"\xff\xfe\x00",
        b"",
        b"vllm:generation_tokens_total{ 3",
        b'{"ok": true}',
        b"a b c d e",
    ],
)
@pytest.mark.parametrize("kind", ["text/plain", OPEN_METRICS])
def test_garbage_is_an_alert_with_the_reason_and_no_failed_run(tmp_path, body, kind):
    bad = Scrape(at_ns=0, replica=A, failure=None, content_type=kind, server=None, body=body)
    server = server_of(tmp_path, bad)

    assert {} == server["metrics"]
    assert 1 == server["replicas"][0]["failed"]
    assert any(alert.startswith(f"{A}: 1 of 1 scrapes failed, the last one: ") for alert in server["alerts"])


def test_families_that_nobody_knows_are_stored_and_told_of(tmp_path):
    server = server_of(tmp_path, page(0, gauge(7, "my_own_gauge")))
    stored = pl.read_parquet(tmp_path / "run" / "server.parquet")

    assert ("my_own_gauge", 7.0) in stored.select("family", "value").rows()
    assert any("speaks no dialect that is known here" in alert for alert in server["alerts"])


def test_what_a_dialect_did_not_tell_is_named(tmp_path):
    server = server_of(tmp_path, page(0, gauge(7)))

    (alert,) = [alert for alert in server["alerts"] if alert.startswith("vllm did not tell")]
    assert "queue_time" in alert
    assert "running" not in alert


def test_a_run_without_scrapes_says_nothing_of_servers(tmp_path):
    rundir = folder_of(tmp_path / "run", [*ROWS, closed(9000)], due=[0, 1000], length=2000)

    assert "server" not in close_run(rundir)


def test_the_sentence_adds_up_to_the_clients_mean(tmp_path):
    def text(n: int, ttft: float, queue: float) -> str:
        named = {"name": "vllm:time_to_first_token_seconds"}
        return histogram({"1": n, "+Inf": n}, ttft, **named) + histogram({"1": n, "+Inf": n}, queue)

    server = server_of(tmp_path, page(-900, text(0, 0, 0)), page(3000, text(2, 0.39, 0.3)))

    # Two streams of 100 and 300 ms to the first output.
    assert server["where"].startswith(
        "of 200 ms of mean ttft 150 ms is queue time on the server, 45 ms prefill and its first token, 5.0 ms delivery"
    )


@pytest.mark.parametrize(
    ("capture", "dialect", "told"),
    [
        ("vllm_metrics_busy", "vllm", {"output_tokens", "queue_time", "running", "waiting", "kv_cache_usage"}),
        ("llamacpp_metrics_busy", "llamacpp", {"output_tokens", "input_tokens", "running", "waiting"}),
        ("dynamo_metrics_busy", "dynamo", {"output_tokens", "ttft", "frame_gap", "running", "waiting"}),
    ],
)
def test_captured_pages_are_known(shared, tmp_path, capture, dialect, told):
    body = (shared / "captures" / f"{capture}.raw").read_bytes().partition(b"\r\n\r\n")[2]
    kept = {"replica": A, "failure": None, "content_type": "text/plain", "server": None, "body": body}
    server = server_of(tmp_path, Scrape(at_ns=-1, **kept), Scrape(at_ns=ns(2000), **kept))

    assert dialect == server["replicas"][0]["dialect"]
    assert set(server["metrics"]) <= set(DIALECTS[dialect])
    stored = set(pl.read_parquet(tmp_path / "run" / "server.parquet")["family"])
    assert all(any(family in stored for family in DIALECTS[dialect][name]) for name in told)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_speaks_of_known_metrics_by_names_without_their_suffix(dialect):
    families = [family for known in DIALECTS[dialect].values() for family in known]

    assert set(DIALECTS[dialect]) <= set(SERVER_METRICS)
    assert not any(
        family.endswith(("_total", "_bucket", "_sum", "_count")) for family in families if "tgi" not in family
    )


@given(st.lists(st.floats(0.01, 99.0), min_size=1, max_size=200), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(values, share):
    bounds = [0.1, 1.0, 5.0, 20.0, 50.0, math.inf]
    buckets = [(bound, float(sum(value <= bound for value in values))) for bound in bounds]
    found, low, high = quantile(buckets, share)
    exact = sorted(values)[math.ceil(share * len(values)) - 1]

    assert low <= exact <= high
    assert low <= found <= high


def test_a_quantile_of_nothing_is_none():
    assert quantile([], 0.5) is None
    assert quantile([(1.0, 0.0), (math.inf, 0.0)], 0.5) is None
