"""What one response said and when: fed by the sockets as bytes arrive, read once at the end."""

from array import array

from loadgen.wire.events import FRAME_KINDS, OTHER, End, Failure, Finish, Malformed, Output, Role, Usage
from loadgen.wire.formats import Decode
from loadgen.wire.framing import FRAMINGS, Frame, Framer, JsonLines, content_type
from loadgen.wire.jsontext import parse, word
from loadgen.wire.recognise import recognise

KIND = {name: code for code, name in enumerate(FRAME_KINDS)}
_TEXT, _DONE, _ERROR, _OTHER = KIND["text"], KIND["done"], KIND["error"], KIND["other"]
_ANSWERS = (KIND["text"], KIND["tool"])  # what makes an answer
_KEPT_BODY_BYTES = 1024 * 1024  # of an answer that is no stream: enough for any error object


class Reading:
    """One response, read as it arrives. Moments are ns since the run's start, None until they happen.

    `ended` is true from the end marker, an error frame or a broken frame on: what follows is read only to free the
    connection, and after a broken frame (`broken`) not even that.
    """

    __slots__ = (
        "_body",
        "_decode",
        "_framer",
        "_speaking",
        "answered",
        "broken",
        "choices",
        "content_type",
        "encoded",
        "ended",
        "failure",
        "finishes",
        "first_frame_ns",
        "first_output_ns",
        "first_text_ns",
        "format",
        "frame_at_ns",
        "frame_bytes",
        "frame_kinds",
        "headers_ns",
        "last_output_ns",
        "malformed",
        "output_chars",
        "output_frames",
        "response_bytes",
        "retry_after",
        "status",
        "terminal_ns",
        "uncertainty_ns",
        "usage",
    )

    def __init__(self) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.encoded = False
        self.retry_after: str | None = None
        self.headers_ns: int | None = None
        self.first_frame_ns: int | None = None
        self.first_output_ns: int | None = None
        self.first_text_ns: int | None = None
        self.last_output_ns: int | None = None
        self.terminal_ns: int | None = None
        self.format: str | None = None
        self.failure: str | None = None
        self.malformed: str | None = None
        self.ended = False
        self.broken = False
        self.usage: Usage | None = None
        self.choices: set[int] = set()
        self.answered: set[int] = set()
        self.finishes: dict[int, str] = {}
        self.output_frames = 0
        self.output_chars = 0
        self.response_bytes = 0
        self.uncertainty_ns = 0
        self.frame_at_ns = array("q")
        self.frame_bytes = array("I")
        self.frame_kinds = bytearray()
        self._framer: Framer | None = None
        self._decode: Decode | None = None
        self._speaking: tuple[int, int] | None = None  # the choice and kind of the last output
        self._body: list[bytes] = []

    @property
    def is_stream(self) -> bool:
        """Whether the answer came in a framing of streams, under a 2xx status."""
        return self._framer is not None

    @property
    def tokens_reported(self) -> bool:
        """Whether a usage report counts output; zero beside output is no report."""
        counted = None if self.usage is None else self.usage.output_tokens
        return counted is not None and counted >= (self.output_frames > 0)

    def head(self, status: int, headers: list[tuple[bytes, bytes]], at_ns: int) -> None:
        """Take the status and headers (lower-case names) of the final response."""
        self.status = status
        self.headers_ns = at_ns
        for name, value in headers:
            if name == b"content-type":
                self.content_type = content_type(value.decode("latin-1"))
            elif name == b"content-encoding":
                self.encoded = value.strip().lower() not in (b"", b"identity")
            elif name == b"retry-after":
                self.retry_after = value.decode("latin-1").strip()
        has_content = 200 <= status < 300 and status not in (204, 205)
        if has_content and not self.encoded and self.content_type in FRAMINGS:
            self._framer = FRAMINGS[self.content_type]()

    def body(self, data: bytes, at_ns: int, floor_ns: int) -> None:
        """Take body bytes that arrived by `at_ns` and after `floor_ns`; never raises."""
        if self._framer is None:
            self.response_bytes += len(data)
            if self.response_bytes <= _KEPT_BODY_BYTES:
                self._body.append(data)
            return
        self.response_bytes += len(data)
        if self.ended:
            return
        try:
            frames = self._framer.feed(data)
        except Malformed as error:
            self._break(str(error))
            return
        outputs = self.output_frames
        self._read(frames, at_ns)
        if self.output_frames - outputs > 1:  # they share a stamp that is true of the last one only
            self.uncertainty_ns = max(self.uncertainty_ns, at_ns - floor_ns)

    def close(self, at_ns: int, *, clean: bool, accept_missing_end_marker: bool = False) -> None:
        """Take the end of the message; a clean one can complete a last frame."""
        if self._framer is not None and clean and not self.ended:
            self._read(self._framer.finish(), at_ns)
            if accept_missing_end_marker and self.finishes and not self.ended:
                self.terminal_ns, self.ended = at_ns, True
        if self._framer is not None and self.format is None and self.frame_kinds:
            self.format = "other"

    def error_word(self) -> str | None:
        """Return the type or code of the error object in a body that is no stream, None where there is none."""
        try:
            value = parse(b"".join(self._body))
        except Malformed:
            return None
        if isinstance(value, list) and value:
            value = value[0]
        if not isinstance(value, dict):
            return None
        error = value.get("error")
        if isinstance(error, dict):
            return word(error.get("type") or error.get("code") or error.get("status"), otherwise="error")
        bare = value.get("message") and value.get("code")
        if error or value.get("object") == "error" or value.get("detail") or bare:
            return word(value.get("type") or value.get("code"), otherwise="error")
        return None

    def _read(self, frames: list[Frame], at_ns: int) -> None:
        """Take frames that one read completed, up to the end marker or what breaks the stream."""
        for frame in frames:
            try:
                decode = self._decode or self._recognise(frame)
                events = OTHER if decode is None else decode(frame)
            except Malformed as error:
                self._break(str(error))
                return
            kind = _OTHER
            has_output = False
            for event in events:
                if isinstance(event, Output):
                    has_output = True
                    self.output_chars += len(event.text)
                    said = KIND[event.kind]
                    if (event.choice, said) != self._speaking:
                        self._turn_to(event.choice, said, at_ns)
                else:
                    said = self._take(event, at_ns)
                if said < kind:
                    kind = said
            if has_output:
                self.output_frames += 1
                self.last_output_ns = at_ns
            if self.first_frame_ns is None:
                self.first_frame_ns = at_ns
            self.frame_at_ns.append(at_ns)
            self.frame_bytes.append(len(frame.data))
            self.frame_kinds.append(kind)
            if self.ended:
                return

    def _turn_to(self, choice: int, kind: int, at_ns: int) -> None:
        """Note that output is of another choice or kind than before: rare, so that the frames in between cost less."""
        self._speaking = (choice, kind)
        self.choices.add(choice)
        if kind in _ANSWERS:
            self.answered.add(choice)
        if self.first_output_ns is None:
            self.first_output_ns = at_ns
        if kind == _TEXT and self.first_text_ns is None:
            self.first_text_ns = at_ns

    def _take(self, event: object, at_ns: int) -> int:
        """Take what is said once a stream or so; return the frame kind it makes."""
        match event:
            case Role(choice):
                self.choices.add(choice)
                return KIND["role"]
            case Finish(reason, choice):
                self.choices.add(choice)
                self.finishes[choice] = reason
                return KIND["finish"]
            case Usage():
                # The last report wins, but some servers put zeros on every frame but the one that counts.
                if self.usage is None or event.output_tokens or not self.usage.output_tokens:
                    self.usage = event
                return KIND["usage"]
            case End():
                self.terminal_ns, self.ended = at_ns, True
                return _DONE
            case Failure(detail):
                self.failure, self.ended = detail, True
                return _ERROR
        return _OTHER

    def _recognise(self, frame: Frame) -> Decode | None:
        """Return the decoder of the dialect that a frame shows, None when it does not tell; raises Malformed."""
        dialect = recognise(frame)
        if dialect is not None:
            self.format = dialect.name
            self._decode = dialect.decoder()
        # Of server-sent events anything may be the data; a line of JSON lines is an object.
        elif isinstance(self._framer, JsonLines) and not isinstance(parse(frame.data), dict):
            raise Malformed("json_not_an_object")
        return self._decode

    def _break(self, detail: str) -> None:
        self.malformed = detail
        self.ended = self.broken = True
