"""Streams that no server should send: mutated at random, read in random pieces, by every target in turn.

A target fails by raising anything but Malformed, by taking longer than a second for one stream, or by taking much more
than ten times as long for a frame ten times as long. What failed is printed so that it can be done again.
"""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from loadgen.results.reading import Reading
from loadgen.wire.events import End, Event, Failure, Finish, Malformed, Other, Output, Role, Usage
from loadgen.wire.formats import FORMATS
from loadgen.wire.framing import FRAMINGS

Target = Callable[[bytes, list[int]], object]

# What tears at parsers: ends of lines, marks of encodings, escapes, numbers, names that decoders look for.
FRAGMENTS = [
    *(b"\r", b"\n", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xff", b"\x00", b"\xe2\x80\xa8", b"\\ud83d", b"\\u0000"),
    *(b"data:", b"data: [DONE]\n\n", b"event: error\n", b": ping\n\n", b"id\n", b"retry: 1\n", b"error: {}\n"),
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b"-1", b"1e999", b"99999999999999999999", b"[" * 300),
    *(b'"choices":[]', b'"delta":null', b'"usage":{}', b'"type":"message_stop"', b'"done":true', b'"error":"x"'),
    *(b'"type":"response.completed"', b'"bytes":"!!"', b'"index":-5', b'"content":[{}]', b'"message":7'),
    *(b"\x00\x00\x00\x10", b"\xff\xff\xff\xff", b"\x00\x00\x02\x00\x00\x00\x00\x00"),
]


def streams() -> Iterator[tuple[str, bytes]]:
    """Yield whole streams of every format with its content type: the stock that is mutated."""
    text = [Output("text", word) for word in ("Hé", " ", "\u2028", "x" * 200)]
    others = [Output("reasoning", "hm"), Output("tool", '{"a": 1}'), Output("refusal", "no")]
    ends: list[list[Event]] = [
        [Finish("stop"), Usage(3, 4, 1, 2), End()],
        [Finish("length"), End()],
        [Failure("overloaded")],
        [],
    ]
    for dialect in FORMATS.values():
        for encoder in dialect.encoders.values():
            for end in ends:
                write = encoder("model").encode
                yield dialect.content_type, b"".join(map(write, [Role(), *text, *others, Other(), *end]))


def read(content_type: str) -> Target:
    """The whole way, as a response comes."""

    def target(data: bytes, cuts: list[int]) -> None:
        reading = Reading()
        reading.head(200, [(b"content-type", content_type.encode())], 0)
        for at, piece in enumerate(pieces(data, cuts)):
            reading.body(piece, at, at)
        reading.close(len(data), clean=len(data) % 2 == 0)
        reading.error_word()

    return target


def split(content_type: str) -> Target:
    """Its framer alone, past whatever it refuses."""

    def target(data: bytes, cuts: list[int]) -> None:
        framer = FRAMINGS[content_type]()
        for piece in pieces(data, cuts):
            framer.feed(piece)
        framer.finish()

    return target


def decode(name: str) -> Target:
    """Its decoder alone, on the frames of a stream, each with a wound of its own and none of them recognised first."""

    def target(data: bytes, cuts: list[int]) -> None:
        dice, said = random.Random(len(data)), FORMATS[name].decoder()
        for frame in FRAMINGS[FORMATS[name].content_type]().feed(data):
            said(msgspec.structs.replace(frame, data=wounded(frame.data, frame.data, dice)))

    return target


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    before = 0
    for cut in cuts:
        yield data[before:cut]
        before = cut
    yield data[before:]


def mutated(content_type: str, stock: list[tuple[str, bytes]], dice: random.Random) -> bytes:
    """Return a stream, mostly of this type, with up to a dozen wounds."""
    fitting = [data for of, data in stock if of == content_type]
    data = dice.choice(fitting if fitting and dice.random() < 0.8 else [data for _, data in stock])
    for _ in range(dice.choice((0, 1, 1, 2, 3, 12))):
        data = wounded(data, dice.choice(stock)[1], dice)
    return data


def wounded(data: bytes, other: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    match dice.randrange(6):
        case 0:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[at + dice.randrange(1, 40) :]
        case 2:
            return data[:at] + dice.choice(FRAGMENTS) + data[at:]
        case 3:
            return data[:at] + data[max(at - dice.randrange(200), 0) :]
        case 4:
            return data[:at] + other[dice.randrange(len(other) + 1) :]
    return data[:at]


# Each with the content type that it wants.
TARGETS: dict[str, tuple[Target, str]] = {
    **{f"read {content_type}": (read(content_type), content_type) for content_type in FRAMINGS},
    **{f"split {content_type}": (split(content_type), content_type) for content_type in FRAMINGS},
    **{f"decode {name}": (decode(name), dialect.content_type) for name, dialect in FORMATS.items()},
}


def fuzz(count: int, seed: int) -> Counter[str]:
    """Give so many mutated streams to the targets in turn; return how many each had. Raises SystemExit."""
    dice, stock, had = random.Random(seed), list(streams()), Counter[str]()
    names = list(TARGETS)

    def too_slow(number: int, frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_slow)
    for number in range(count):
        name = names[number % len(names)]
        target, content_type = TARGETS[name]
        data = mutated(content_type, stock, dice)
        cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice((0, 1, 3, 10))))
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        try:
            target(data, cuts)
        except Malformed:
            pass
        except BaseException as error:
            raise SystemExit(f"{name}: {error!r}\n{data!r}\ncut at {cuts}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        had[name] += 1
    return had


def growth() -> Iterator[tuple[str, float]]:
    """Yield how many times longer a frame takes that is ten times as long, in small reads: the least of three."""
    for dialect in FORMATS.values():
        for api, encoder in dialect.encoders.items():
            long = [b"".join(map(encoder("m").encode, _long(size))) for size in (200_000, 2_000_000)]
            yield api, min(_times(read(dialect.content_type), *long) for _ in range(3))
    for framer in dict.fromkeys(FRAMINGS.values()):
        content_type = next(name for name, other in FRAMINGS.items() if other is framer)
        for name, junk in (("a line", b"x"), ("line ends", b"\r"), ("fields", b"data:\n"), ("brackets", b"{[")):
            long = [junk * (size // len(junk)) for size in (200_000, 2_000_000)]
            yield f"{content_type}, {name}", min(_times(read(content_type), *long) for _ in range(3))


def _times(target: Target, short: bytes, long: bytes) -> float:
    once, tenfold = (min(_seconds(target, data) for _ in range(5)) for data in (short, long))
    return tenfold / once


def _long(size: int) -> list[Event]:
    return [Role(), Output("text", "y" * size), Finish("stop"), End()]


def _seconds(target: Target, data: bytes) -> float:
    cuts = list(range(1_400, len(data), 1_400))
    began = time.perf_counter()
    target(data, cuts)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    had = fuzz(asked.streams, asked.seed)
    print(f"{had.total():,} streams in {time.monotonic() - began:.0f} s, seed {asked.seed}: no crash, no hang")
    print("  " + ", ".join(f"{name} {count:,}" for name, count in had.items()))
    times = dict(growth())
    worst = max(times, key=times.__getitem__)
    print(f"ten times the length takes at most {times[worst]:.1f} times as long ({worst}, of {len(times)})")
    if times[worst] > 20:
        sys.exit(f"superlinear: {worst}")


main()
