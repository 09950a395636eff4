"""OpenAI Responses: typed events of the items that a response is made of."""

from functools import lru_cache
from typing import Any

import msgspec

from loadgen.wire.events import (
    END,
    OTHER,
    End,
    Event,
    Failure,
    Finish,
    Other,
    Output,
    OutputKind,
    Role,
    Told,
    ToolCall,
    Usage,
)
from loadgen.wire.failures import error_word, failure_in
from loadgen.wire.formats.items import ITEMS, UNSET, usage_object
from loadgen.wire.frame import Frame
from loadgen.wire.framing import server_sent_event
from loadgen.wire.jsontext import REFUSED, argument_text, count, loosely, parse

# What a `.done` event repeats is in the field of this name.
_WHOLE = ("text", "refusal", "arguments", "input", "code", "command", "transcript")


# Fields are Any where servers disagree about the type. Events other than deltas are rare, and read as they are.
class _Said(msgspec.Struct, gc=False):
    type: Any = None
    delta: Any = None
    item_id: Any = None
    output_index: Any = None
    error: Any = None


_NONE = object()  # no event's type
_typed = msgspec.json.Decoder(_Said).decode


class Decoder:
    """Reads one stream: what was said piece by piece is not counted again when it is repeated as a whole.

    >>> Decoder().decode(Frame(b"", b'{"type":"response.output_text.delta","delta":"hi"}'))
    (Output(kind='text', text='hi', choice=0),)
    """

    __slots__ = ("_item_id", "_kind", "_output_index", "_said", "_spoken")

    def __init__(self) -> None:
        # Of the last piece: the next is mostly of the same event and item.
        self._kind: object = _NONE
        self._said: OutputKind = "text"
        self._item_id: object = None
        self._output_index: object = None
        self._spoken: set[object] = set()

    def decode(self, frame: Frame) -> tuple[Event, ...]:
        """Return what one frame says; raises Malformed when its data is no JSON object."""
        try:
            said = _typed(frame.data)
        except REFUSED:
            if frame.event == b"error":
                return failure_in(frame.data)
            loose = loosely(frame.data, _Said)
            if loose is None:
                return OTHER
            said = loose
        text = said.delta
        if (
            type(text) is str
            and text
            and said.type == self._kind
            and said.item_id == self._item_id
            and said.output_index == self._output_index
            and not said.error
        ):
            return (Output(self._said, text),)
        kind = said.type if isinstance(said.type, str) else frame.event.decode("latin-1")
        if kind == "error" or frame.event == b"error" or said.error:
            return failure_in(frame.data)
        if kind.startswith("response.") and kind.endswith(".delta"):
            return self._piece(kind, said)
        value = parse(frame.data)
        if kind.startswith("response."):
            return self._structure(kind, value)
        return failure_in(frame.data) if not kind and error_word(value) is not None else OTHER

    def _piece(self, kind: str, said: _Said) -> tuple[Event, ...]:
        spoken, text = _spoken_by(kind), said.delta
        if spoken is None or not isinstance(text, str) or not text:
            return OTHER
        self._kind, self._said, self._item_id, self._output_index = kind, spoken, said.item_id, said.output_index
        for item in _keys(said.item_id, said.output_index):
            self._spoken |= {item, (kind.removesuffix(".delta"), item)}
        return (Output(spoken, text),)

    def _structure(self, kind: str, value: dict[str, Any]) -> tuple[Event, ...]:
        events: list[Event] = []
        response = value.get("response")
        if isinstance(response, dict):
            _usage(response.get("usage"), events)
        match kind.removeprefix("response."):
            case "completed" | "incomplete" | "failed" as status:
                _finish(response if isinstance(response, dict) else {}, status, events)
            case "output_item.added":
                item = value.get("item")
                if isinstance(item, dict) and (item.get("type") == "message" or item.get("name")):
                    events.append(Role())
            case "output_item.done":
                self._item(value, events)
            case "content_part.done" | "reasoning_summary_part.done":
                self._part(value, events)
            case "shell_call_command.added":
                self._whole("response.shell_call_command", value, events)
            case other if other.endswith(".done"):
                self._whole(kind.removesuffix(".done"), value, events)
        return tuple(events) or OTHER

    # What came as a whole counts once, and only of an item of which no piece came.

    def _whole(self, stem: str, value: dict[str, Any], events: list[Event]) -> None:
        items = _keys(value.get("item_id"), value.get("output_index"))
        place = _place(value)
        spoken = _spoken_by(stem + ".delta")
        if spoken is None or any((stem, item) in self._spoken or (stem, item, place) in self._spoken for item in items):
            return
        if any(_say(spoken, value.get(field), events) for field in _WHOLE):
            for item in items:
                self._spoken |= {item, (stem, item, place)}

    def _part(self, value: dict[str, Any], events: list[Event]) -> None:
        items, place = _keys(value.get("item_id"), value.get("output_index")), _place(value)
        if not any(item in self._spoken or ("part", item, place) in self._spoken for item in items):
            _say_part(value.get("part"), events)
            for item in items:
                self._spoken |= {("parts", item), ("part", item, place)}

    def _item(self, value: dict[str, Any], events: list[Event]) -> None:
        item = value.get("item")
        if not isinstance(item, dict):
            return
        keys = _keys(item.get("id"), value.get("output_index"))
        if any(key in self._spoken or ("parts", key) in self._spoken for key in keys):
            return
        self._spoken.update(keys)
        for part in (*_objects(item.get("summary")), *_objects(item.get("content"))):
            _say_part(part, events, is_reasoning=item.get("type") == "reasoning")
        for field in ("arguments", "input", "code"):
            _say("tool", argument_text(item.get(field)), events)


def _keys(item_id: object, output_index: object) -> list[object]:
    """Return what an item may be known by; servers leave out the one or the other."""
    keys: list[object] = [key for key in (item_id, output_index) if isinstance(key, str | int)]
    return keys or [None]


def _place(value: dict[str, Any]) -> object:
    place = value.get("content_index", value.get("summary_index"))
    return place if isinstance(place, str | int) else None


@lru_cache(maxsize=256)
def _spoken_by(name: str) -> OutputKind | None:
    """Return what the pieces of an event of this name are; None for what is no text of the model's."""
    if name.startswith("response.shell_call_output") or ("audio" in name and "transcript" not in name):
        return None
    if "reasoning" in name:
        return "reasoning"
    if any(part in name for part in ("argument", "input", "code", "command", "call")):
        return "tool"
    return "refusal" if "refusal" in name else "text"


def _say(kind: OutputKind, text: object, events: list[Event]) -> bool:
    if isinstance(text, str) and text:
        events.append(Output(kind, text))
        return True
    return False


def _say_part(part: object, events: list[Event], *, is_reasoning: bool = False) -> None:
    if isinstance(part, dict):
        kind: OutputKind = "reasoning" if is_reasoning or part.get("type") in _REASONING_PARTS else "text"
        _say(kind, part.get("text") or part.get("transcript"), events)
        _say("refusal", part.get("refusal"), events)


_REASONING_PARTS = ("reasoning_text", "summary_text")


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _finish(response: dict[str, Any], status: str, events: list[Event]) -> None:
    """Say how a response ended: by what stands in it, and by its event's name where nothing does."""
    said = response.get("status")
    if "failed" in (status, said):
        events.append(Failure(error_word(response) or "error"))
        return
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    events.append(Finish(next(word for word in (reason, said, status) if isinstance(word, str) and word)))
    events += END


def _usage(usage: object, events: list[Event]) -> None:
    if isinstance(usage, dict):
        read, written = usage.get("input_tokens_details"), usage.get("output_tokens_details")
        events.append(
            Usage(
                input_tokens=count(usage.get("input_tokens")),
                output_tokens=count(usage.get("output_tokens")),
                cached_tokens=count(read.get("cached_tokens")) if isinstance(read, dict) else None,
                reasoning_tokens=count(written.get("reasoning_tokens")) if isinstance(written, dict) else None,
            )
        )


def tells(frame: Frame, value: object) -> bool:
    """Say whether a frame shows that its stream speaks this dialect; `value` is its data as JSON, None if none."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type", frame.event.decode("latin-1"))
    if kind == "error":
        return "sequence_number" in value and bool(value.get("error") or value.get("code") or value.get("message"))
    return isinstance(kind, str) and kind.startswith("response.")


class Encoder:
    """Write one stream; the inverse of `Decoder`. Its reason and its usage are said by the event that ends it.

    `numbered` gives each event its `sequence_number`; without them the frames of one text are the same in every stream,
    and `with_numbers` adds them.

    >>> Encoder(model="sim").encode(Other())
    b'event: keepalive\\ndata: {"type":"keepalive","sequence_number":0}\\n\\n'
    """

    def __init__(self, *, model: str, id: str = "resp_sim", numbered: bool = True) -> None:
        self._response = {"id": id, "object": "response", "created_at": 0, "model": model, **UNSET}
        self._numbered = numbered
        self._number = 0
        self._kind: OutputKind | None = None  # of the item that is open
        self._index = -1  # its place
        self._text: list[str] = []  # what it said so far
        self._items: list[dict[str, Any]] = []  # those that are whole
        self._call: dict[str, Any] = {}  # the id and name of the call that is open
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._failure: str | None = None

    def encode(self, event: Told) -> bytes:
        """Return the frames that say `event`; nothing where the end will say it."""
        said: list[tuple[str, dict[str, Any]]]
        match event:
            case Role():
                opened = [("response.created", {"response": self._whole("in_progress")})]
                said = [*opened, ("response.in_progress", {"response": self._whole("in_progress")})]
            case Output(kind, text):
                opened = self._turn_to(kind)
                delta = {**self._place(), "delta": text, **ITEMS[kind].extra}
                said = [*opened, (f"response.{ITEMS[kind].stem}.delta", delta)]
                self._text.append(text)
            case ToolCall(id, name):
                said = self._open("tool", call_id=id, name=name)
            case Finish(reason):
                self._reason, said = reason, []
            case Usage():
                self._usage, said = event, []
            case Failure(detail):
                self._failure = detail
                said = [("error", {"code": detail, "message": detail, "param": None})]
            case Other():
                said = [("keepalive", {})]
            case End() if self._failure is not None:
                said = [("response.failed", {"response": self._whole("failed")})]
            case End():
                closed = self._close()
                ended = "completed" if self._reason in (None, "completed") else "incomplete"
                said = [*closed, (f"response.{ended}", {"response": self._whole(ended)})]
        return b"".join(self._event(name, fields) for name, fields in said)

    def _event(self, name: str, fields: dict[str, Any]) -> bytes:
        number = {"sequence_number": self._number} if self._numbered else {}
        self._number += 1
        return server_sent_event({"type": name, **number, **fields}, name=name)

    def _whole(self, status: str) -> dict[str, Any]:
        details = {"reason": self._reason} if status == "incomplete" else None
        usage = None if self._usage is None else usage_object(self._usage)
        error = {"code": self._failure, "message": self._failure} if status == "failed" else None
        return {
            **self._response,
            "status": status,
            "error": error,
            "incomplete_details": details,
            "output": list(self._items),
            "usage": usage,
        }

    def _place(self) -> dict[str, Any]:
        assert self._kind is not None
        part: dict[str, Any] = {} if self._kind == "tool" else {"content_index": 0}
        return {"item_id": f"item_{self._index}", "output_index": self._index, **part}

    def _item(self, status: str, text: str) -> dict[str, Any]:
        assert self._kind is not None
        form = ITEMS[self._kind]
        said: dict[str, Any] = {**self._call, form.field: text}
        if form.part is not None:
            said = {"content": [form.part_of(text)]}
        return {"id": f"item_{self._index}", "type": form.type, "status": status, **form.fields, **said}

    def _turn_to(self, kind: OutputKind) -> list[tuple[str, dict[str, Any]]]:
        return [] if kind == self._kind else self._open(kind, call_id="call_sim", name="tool")

    def _open(self, kind: OutputKind, **call: str) -> list[tuple[str, dict[str, Any]]]:
        said = self._close()
        self._kind, self._text, self._call = kind, [], call
        self._index += 1
        form, item = ITEMS[kind], self._item("in_progress", "")
        if form.part is not None:
            item["content"] = []
        said.append(("response.output_item.added", {"output_index": self._index, "item": item}))
        if form.part is not None:
            said.append(("response.content_part.added", {**self._place(), "part": form.part_of("")}))
        return said

    def _close(self) -> list[tuple[str, dict[str, Any]]]:
        if self._kind is None:
            return []
        form, text, place = ITEMS[self._kind], "".join(self._text), self._place()
        done = {**place, form.field: text, **form.extra}
        said: list[tuple[str, dict[str, Any]]] = [(f"response.{form.stem}.done", done)]
        if form.part is not None:
            said.append(("response.content_part.done", {**place, "part": form.part_of(text)}))
        item = self._item("completed", text)
        said.append(("response.output_item.done", {"output_index": self._index, "item": item}))
        self._items.append(item)
        self._kind = None
        return said


def with_numbers(events: bytes, first: int) -> bytes:
    """Return events that were written without numbers with theirs, which count from `first` on.

    >>> with_numbers(Encoder(model="sim", numbered=False).encode(Other()), 7)
    b'event: keepalive\\ndata: {"type":"keepalive","sequence_number":7}\\n\\n'
    """
    places = enumerate(map(around_number, events.split(_BETWEEN)[:-1]), first)
    return b"".join(b"%b%d%b" % (before, number, after) + _BETWEEN for number, (before, after) in places)


def around_number(event: bytes) -> tuple[bytes, bytes]:
    """Return what stands before and after the number of an event that was written without."""
    name_at = event.index(_TYPE) + len(_TYPE)
    at = event.index(b'"', name_at) + 1
    return event[:at] + b',"sequence_number":', event[at:]


_BETWEEN = b"\n\n"
_TYPE = b'data: {"type":"'
