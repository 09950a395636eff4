"""When bytes arrived, by the kernel's word: SO_TIMESTAMPNS on a TCP socket, mapped to the run's clock."""

import socket
import struct
import sys
import time

# Not in the socket module; <asm-generic/socket.h>. The control message has the option's own number.
_SO_TIMESTAMPNS = 35
ANCILLARY_BYTES = 64
_timespec = struct.Struct("qq").unpack_from

# A stamp may be this much after the read that saw it before we call it absurd (the wall clock was stepped).
_SLACK_NS = 1_000_000


def ask_for_stamps(sock: socket.socket) -> None:
    """Have every read of this socket say when its last byte arrived."""
    if sys.platform == "linux":
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def keeper() -> socket.socket:
    """Return a socket that keeps the machine's stamping switched on while it is open.

    The kernel starts to stamp lazily, with the first socket that asks: connections made then got none in a sixth to a
    third of tries.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ask_for_stamps(sock)
    return sock


def wall_offset_ns() -> int:
    """Return what to add to wall-clock ns to get monotonic ns, sampled now."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    spread = time.monotonic_ns() - before
    for _ in range(3):  # a preemption between the two clocks would be our error for a whole batch
        if spread < 5_000:
            break
        again = time.monotonic_ns()
        wall_again = time.time_ns()
        spread_again = time.monotonic_ns() - again
        if spread_again < spread:
            before, wall, spread = again, wall_again, spread_again
    return before + spread // 2 - wall


def stamp_of(ancillary: list[tuple[int, int, bytes]], offset_ns: int, floor_ns: int, now_ns: int) -> int | None:
    """Return when the kernel says that the read's last byte arrived; None when what it says is nonsense.

    Nonsense is a moment before `floor_ns` (nothing was asked for yet) or after `now_ns`: the wall clock was stepped.
    """
    seconds, nanoseconds = _timespec(ancillary[0][2])
    stamp: int = seconds * 1_000_000_000 + nanoseconds + offset_ns
    if floor_ns - _SLACK_NS <= stamp <= now_ns:
        return stamp
    return now_ns if now_ns < stamp <= now_ns + _SLACK_NS else None
