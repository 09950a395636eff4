"""What this machine lets one process have: descriptors and ports."""

import resource
from pathlib import Path

from loadgen.errors import UsageError

# The interpreter's own files, the journal, timers, epoll sets, the keeper.
_OWN_DESCRIPTORS = 32
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def raise_descriptor_limit() -> int:
    """Raise the soft limit on descriptors to the hard one; return how many connections it leaves room for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard - _OWN_DESCRIPTORS


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def ephemeral_ports() -> int:
    """Return how many ports the kernel has for connections to one target."""
    low, high = map(int, _PORT_RANGE.read_text().split())
    return high - low + 1


def check_limits(*, certain: int, possible: int) -> list[str]:
    """Hold planned connections against this machine's limits.

    `certain` is what the run will surely have open at once: beyond a limit that raises UsageError. `possible` is what
    it has if every answer takes its whole deadline: beyond a limit that is a warning, returned in words.
    """
    warnings = []
    for name, room, remedy in (
        ("descriptors", raise_descriptor_limit(), "raise `ulimit -n`"),
        ("ephemeral ports", ephemeral_ports(), "widen net.ipv4.ip_local_port_range"),
    ):
        if certain > room:
            raise UsageError(f"{certain} connections at once need more {name} than the {room} there are", hint=remedy)
        if possible > room:
            warnings.append(
                f"if every answer takes its whole deadline, {possible} connections are open at once; "
                f"there are {room} {name} ({remedy}, or set --max-concurrency or a shorter --deadline)"
            )
    return warnings
