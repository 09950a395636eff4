"""From what came to the line of the recording: bodies cut into frames, secrets left out."""

import base64
import re
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from loadgen.plan.recordings.apis import api_of_path
from loadgen.plan.recordings.ours import RecordedFrame, RecordedRequest, RecordedResponse
from loadgen.servers.recorder.message import REPLACED, end_to_end
from loadgen.servers.recorder.note import Note
from loadgen.servers.recorder.redaction import Redaction, blotted, may_be_json
from loadgen.servers.recorder.usage import usage_of_stream, usage_of_whole
from loadgen.wire.frame import Frame
from loadgen.wire.framing import FRAMINGS, JsonLines, content_type
from loadgen.wire.recognise import recognise
from loadgen.wire.slices import Slice, Slicer, slicer_of

# Reads handled at a time: what takes its turn with reading sockets must be brief.
_BITE = 32
# Usage is told at a stream's beginning and end: so many frames of each are looked at for it.
_FIRST, _LAST = 4, 16
_LOOKED_AT_BYTES = 1 << 20
_JSON = re.compile(r"application/(.*\+)?json")


class Transcript:
    """One note being written out: go through `work` to its end, then ask for the line's value."""

    def __init__(self, note: Note, redaction: Redaction, *, prefix: bytes) -> None:
        self._note = note
        self._redaction = redaction
        self._prefix = prefix
        self._secrets = redaction.secrets_of(note.request)
        self._frames: list[RecordedFrame] = []
        self._first: list[Frame] = []
        self._last: deque[Frame] = deque(maxlen=_LAST)
        self._whole = b""
        headers = {name.lower(): value for name, value in note.headers}
        self._kind = content_type(headers.get(b"content-type", b"").decode("latin-1"))
        self._is_encoded = headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity")

    def work(self) -> Iterator[None]:
        """Cut the answer into frames, a bite at a time."""
        note = self._note
        slicer = None if self._is_encoded else slicer_of(self._kind)
        if slicer is not None:
            yield from self._slice(slicer)
            return
        whole = b"".join(note.reads)
        if not self._is_encoded and _JSON.fullmatch(self._kind):
            self._whole = whole
            if whole:
                self._keep(self._redaction.body(whole, self._secrets), note.at_ns[-1])
            return
        is_opaque = self._is_encoded or may_be_json(whole)
        if blotted(whole, self._secrets) != whole:  # in one piece, since a secret may stand in two
            self._keep(self._redaction.body(whole, self._secrets, is_opaque=is_opaque), note.at_ns[-1])
            return
        for place, data in enumerate(note.reads):
            self._keep(self._redaction.body(data, self._secrets, is_opaque=is_opaque), note.at_ns[place])
            if not place % _BITE:
                yield

    def _slice(self, slicer: Slicer) -> Iterator[None]:
        note = self._note
        for place, data in enumerate(note.reads):
            for one in slicer.feed(data):
                self._keep_slice(one, note.at_ns[place])
            if place % _BITE == _BITE - 1:
                yield
        for one in slicer.finish(clean=note.clean):
            self._keep_slice(one, note.at_ns[-1])

    def _keep_slice(self, one: Slice, at_ns: int) -> None:
        raw, frame = one
        if frame is not None:
            (self._first if len(self._first) < _FIRST else self._last).append(frame)
        self._keep(self._redaction.frame(raw, frame, self._kind, self._secrets), at_ns)

    def _keep(self, raw: bytes, at_ns: int) -> None:
        note = self._note
        ms = (at_ns - (note.request.arrived_ns if note.sent_ns is None else note.sent_ns)) // 1_000 / 1_000
        try:
            self._frames.append(RecordedFrame(ms, raw.decode()))
        except UnicodeDecodeError:
            self._frames.append(RecordedFrame(ms, None, base64.b64encode(raw).decode()))

    def recorded(self, *, id: str, at_s: float) -> tuple[RecordedRequest, str]:
        """Return the line's value, and the name of the answer's format."""
        note, redaction, secrets = self._note, self._redaction, self._secrets
        request = note.request
        format, usage = self._format_and_usage()
        body = redaction.body(request.body, secrets, is_opaque=bool(request.header(b"content-encoding")))
        path = redaction.path(self._prefix + request.path, secrets)
        kept = [pair for pair in end_to_end(request.headers) if pair[0].lower() not in REPLACED]
        response = RecordedResponse(
            status=note.status,
            headers=None if note.status is None else redaction.headers(note.headers, secrets),
            end="clean" if note.clean else "cut",
            frames=self._frames,
            **({} if usage is None else {"usage": msgspec.Raw(msgspec.json.encode(usage))}),
        )
        recorded = RecordedRequest(
            id=id,
            at_s=at_s,
            method=request.method,
            path=path,
            headers=redaction.headers(kept, secrets),
            model=_model(body, path),
            source="record",
            response=response,
            **_body(body),
        )
        return recorded, format

    def _format_and_usage(self) -> tuple[str, dict[str, int] | None]:
        """Return how the answer is written, and the tokens that its server counted; None where it did not."""
        if self._whole:
            return "json", usage_of_whole(self._whole) if len(self._whole) <= _LOOKED_AT_BYTES else None
        if not self._first:
            return self._kind or ("untyped" if self._note.reads else "no body"), None
        dialect = recognise(self._first[0], is_line=FRAMINGS.get(self._kind) is JsonLines)
        if dialect is None:
            return self._kind, None
        return dialect.name, usage_of_stream(dialect, [*self._first, *self._last])


def _body(data: bytes) -> dict[str, Any]:
    """Return the body as the recording's field: as it came where it can stand in a line of JSON."""
    if not data:
        return {}
    try:
        data.decode()
        is_line = not (b"\n" in data or b"\r" in data or data == b"null")
        # Blanks around a value are lost with a line's reader.
        if is_line and bytes(msgspec.json.decode(data, type=msgspec.Raw)) == data:
            return {"body": msgspec.Raw(data)}
    except (ValueError, RecursionError):
        pass
    return {"body_b64": base64.b64encode(data).decode()}


class _Asked(msgspec.Struct):
    model: Any = None


_asked = msgspec.json.Decoder(_Asked).decode


def _model(body: bytes, path: str) -> str | None:
    """Return the model that the body names, or the path where the API has it there."""
    try:
        model = _asked(body).model
    except (ValueError, RecursionError):
        model = None
    if isinstance(model, str):
        return model
    api = api_of_path(path)
    if api is not None and api.names_model_in_path:
        return unquote(path.partition("?")[0].rstrip("/").rsplit("/", 2)[-2])
    return None
