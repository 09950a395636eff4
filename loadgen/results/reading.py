"""What one response said and when: fed by the sockets as bytes arrive, read once at the end."""

from array import array
from collections.abc import Sequence

from loadgen.wire.events import FRAME_KINDS, OTHER, End, Event, Failure, Finish, Malformed, Output, Role, Usage
from loadgen.wire.failures import error_word
from loadgen.wire.formats import FORMATS, Decode
from loadgen.wire.frame import MAX_FRAME_BYTES, Broken, Foreign, Frame, Framer
from loadgen.wire.framing import FRAMINGS, JsonLines, content_type
from loadgen.wire.jsontext import parse, sound, word
from loadgen.wire.recognise import recognise

KIND = {name: code for code, name in enumerate(FRAME_KINDS)}
_TEXT, _DONE, _ERROR, _OTHER = KIND["text"], KIND["done"], KIND["error"], KIND["other"]
_ANSWERS = (KIND["text"], KIND["tool"])  # what makes an answer
_KEPT_BODY_BYTES = 1024 * 1024  # of an answer that is no stream: enough for any error object
_JSON = "application/json"
# Of so many frames of a stream, its first, time, size and kind are stored: more than any model's longest answer has.
FRAMES_KEPT = 2**17


class Reading:
    """One response, read as it arrives. Moments are ns since the run's start, None until they happen.

    `ended` is true from the end marker, an error frame or a broken frame on: what follows is read only to free the
    connection (and for the usage report that some dialects send after their end), and after a broken frame (`broken`)
    not even that.

    Memory is flat: of the first FRAMES_KEPT frames each one's time, size and kind are stored, of those that follow
    none. So every stored gap is one between neighbours, and what is pooled from a longer stream is its beginning.
    Counts (`frames`, `output_frames`, `output_chars`), moments and usage are of all frames.
    """

    __slots__ = (
        "_accepted",
        "_answer",
        "_body",
        "_decode",
        "_error_type",
        "_framer",
        "_speaking",
        "_trails",
        "_unkept",
        "answered",
        "broken",
        "choices",
        "content_type",
        "encoded",
        "ended",
        "failure",
        "finishes",
        "first_output_ns",
        "first_text_ns",
        "format",
        "frame_at_ns",
        "frame_bytes",
        "frame_kinds",
        "headers_ns",
        "last_output_ns",
        "malformed",
        "mislabelled",
        "output_chars",
        "output_frames",
        "response_bytes",
        "retry_after",
        "status",
        "terminal_ns",
        "uncertainty_ns",
        "usage",
    )

    def __init__(self, *, keeps_answer: bool = False) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.encoded = False
        self.retry_after: str | None = None
        self.headers_ns: int | None = None
        self.first_output_ns: int | None = None
        self.first_text_ns: int | None = None
        self.last_output_ns: int | None = None
        self.terminal_ns: int | None = None
        self.format: str | None = None
        self.failure: str | None = None
        self.malformed: str | None = None
        self.mislabelled = False  # the body is no stream, though its content type is one of streams
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
        self._accepted = False  # one object, read as if it were a stream of one frame
        self._trails = False  # a usage report may come after the end
        self._unkept = 0  # frames whose time, size and kind were not stored
        self._error_type: str | None = None
        self._answer: list[Output] | None = [] if keeps_answer else None

    @property
    def is_stream(self) -> bool:
        """Whether the answer came in a framing of streams, or as one object that is as good, under a 2xx status."""
        return self._framer is not None or self._accepted

    @property
    def frames(self) -> int:
        """How many frames came, stored or not."""
        return len(self.frame_kinds) + self._unkept

    @property
    def first_frame_ns(self) -> int | None:
        """When the first frame was complete."""
        return self.frame_at_ns[0] if self.frame_at_ns else None

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
                self.encoded = self.encoded or value.strip().lower() not in (b"", b"identity")
            elif name == b"retry-after":
                self.retry_after = value.decode("latin-1").strip()
            elif name == b"x-amzn-errortype":
                self._error_type = value.decode("latin-1").partition(":")[0].strip()
        if self._is_read() and self.content_type in FRAMINGS:
            self._framer = FRAMINGS[self.content_type]()

    def body(self, data: bytes, at_ns: int, floor_ns: int) -> None:
        """Take body bytes that arrived by `at_ns` and after `floor_ns`; never raises."""
        self.response_bytes += len(data)
        if self._framer is None:
            self._keep(data)
            return
        if self.ended:
            if self._trails:
                self._take_late(data, at_ns)
            return
        try:
            frames = self._framer.feed(data)
        except Malformed as error:
            self._refuse(error, at_ns, floor_ns)
            return
        if len(frames) > 1:
            self._read_together(frames, at_ns, floor_ns)
        else:
            self._read(frames, at_ns)

    def close(self, at_ns: int, *, clean: bool, accept_missing_end_marker: bool = False) -> None:
        """Take the end of the message; a clean one can complete a last frame."""
        if self._framer is None:
            if clean and self.content_type == _JSON and self._is_read():
                self._accept(at_ns)
            return
        if clean and not self.ended:
            try:
                self._read(self._framer.finish(), at_ns)
            except Malformed as error:
                self._refuse(error, at_ns, at_ns)
            if accept_missing_end_marker and self.finishes and not self.ended:
                self.terminal_ns, self.ended = at_ns, True
        if self.format is None and self.frame_kinds:
            self.format = "other"
        self._thin()

    def said(self, kind: str) -> str | None:
        """Return all that the first choice said of this kind; None where it was not kept."""
        if self._answer is None:
            return None
        return "".join(output.text for output in self._answer if output.kind == kind)

    def error_word(self) -> str | None:
        """Return the type or code of the error object in a body that is no stream, None where there is none.

        Amazon's is in a header.
        """
        if self._error_type:
            return word(self._error_type, otherwise="error")
        try:
            value = parse(self._whole_body())
        except Malformed:
            return None
        if isinstance(value, list) and value:
            value = value[0]
        return "error" if isinstance(value, dict) and value.get("error") == {} else error_word(value)

    def _is_read(self) -> bool:
        """Whether the body of this response can be an answer."""
        has_content = self.status is not None and 200 <= self.status < 300 and self.status not in (204, 205)
        return has_content and not self.encoded

    def _keep(self, data: bytes) -> None:
        """Keep the beginning of a body that is no stream; all of what may be an answer as one object."""
        if self.response_bytes <= (MAX_FRAME_BYTES if self.content_type == _JSON else _KEPT_BODY_BYTES):
            self._body.append(data)

    def _whole_body(self) -> bytes:
        return b"".join(self._body).removeprefix(b"\xef\xbb\xbf")

    def _accept(self, at_ns: int) -> None:
        """Read Ollama's answer as one object: done, but no stream, so nothing in it was first (METRICS section 3)."""
        frame = Frame(b"", self._whole_body())
        try:
            value = parse(frame.data)
        except Malformed:
            return
        ollama = FORMATS["ollama"]
        if isinstance(value, dict) and value.get("done") is True and ollama.tells(frame, value):
            self._accepted, self.format, self._decode = True, ollama.name, ollama.decoder()
            self._read([frame], at_ns)
            self.first_output_ns = self.first_text_ns = None

    def _read_together(self, frames: Sequence[Frame], at_ns: int, floor_ns: int) -> None:
        """Take several frames of one read: they share a stamp that is true of the last one only."""
        outputs = self.output_frames
        self._read(frames, at_ns)
        if self.output_frames - outputs > 1:
            self.uncertainty_ns = max(self.uncertainty_ns, at_ns - floor_ns)

    def _read(self, frames: Sequence[Frame], at_ns: int) -> None:
        """Take frames that one read completed, up to the end marker or what breaks the stream."""
        if len(self.frame_kinds) > FRAMES_KEPT:
            self._thin()
        for frame in frames:
            try:
                events = (self._decode or self._recognise(frame))(frame)
            except Malformed as error:
                self._break(str(error))
                return
            kind = _OTHER
            has_output = False
            for event in events:
                if type(event) is Output:
                    has_output = True
                    self.output_chars += len(event.text)
                    if self._answer is not None and not event.choice:
                        self._answer.append(event)
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
            self.frame_at_ns.append(at_ns)
            self.frame_bytes.append(len(frame.data))
            self.frame_kinds.append(kind)
            if self.ended:
                if self._trails:
                    place = next(place for place, other in enumerate(frames, 1) if other is frame)
                    self._read_late(frames[place:], at_ns)
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
                self.finishes[choice] = sound(reason)
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
                self.failure, self.ended, self._trails = detail, True, False
                return _ERROR
        return _OTHER

    def _recognise(self, frame: Frame) -> Decode:
        """Return the decoder of the dialect that a frame shows, or for want of one of this frame; raises Malformed."""
        is_line = isinstance(self._framer, JsonLines)
        dialect = recognise(frame, is_line=is_line)
        if dialect is not None:
            self.format = dialect.name
            self._decode = dialect.decoder()
            self._trails = dialect.trails
        # Of server-sent events anything may be the data; a line of JSON lines is an object.
        elif is_line and not isinstance(parse(frame.data), dict):
            raise Malformed("json_not_an_object")
        return self._decode or _says_nothing

    def _refuse(self, error: Malformed, at_ns: int, floor_ns: int) -> None:
        """Take what the framer could not: bytes of another kind of body, or frames and then broken ones."""
        if isinstance(error, Foreign):
            self._framer, self.mislabelled = None, True
            self._keep(error.body)
            return
        if isinstance(error, Broken):
            self._read_together(error.frames, at_ns, floor_ns)
            self._trails = False
        if not self.ended:
            self._break(str(error))

    def _take_late(self, data: bytes, at_ns: int) -> None:
        """Take bytes after the end marker: nothing in them can change the outcome, broken or not."""
        assert self._framer is not None
        try:
            self._read_late(self._framer.feed(data), at_ns)
        except Broken as error:
            self._read_late(error.frames, at_ns)
            self._trails = False

    def _read_late(self, frames: Sequence[Frame], at_ns: int) -> None:
        """Take the usage reports of frames after the end marker, and nothing else."""
        assert self._decode is not None
        for frame in frames:
            try:
                reports = [event for event in self._decode(frame) if isinstance(event, Usage)]
            except Malformed:
                self._trails = False
                return
            if reports:
                self._take(reports[-1], at_ns)
                self.frame_at_ns.append(at_ns)
                self.frame_bytes.append(len(frame.data))
                self.frame_kinds.append(KIND["usage"])

    def _thin(self) -> None:
        """Drop what is stored beyond FRAMES_KEPT frames."""
        beyond = len(self.frame_kinds) - FRAMES_KEPT
        if beyond > 0:
            self._unkept += beyond
            del self.frame_at_ns[FRAMES_KEPT:], self.frame_bytes[FRAMES_KEPT:], self.frame_kinds[FRAMES_KEPT:]

    def _break(self, detail: str) -> None:
        self.malformed = detail
        self.ended = self.broken = True
        self._trails = False


def _says_nothing(_frame: Frame) -> tuple[Event, ...]:
    return OTHER
