"""Wake at a moment, to within about 50 us: trio's own sleep goes through epoll, which rounds to whole milliseconds."""

import ctypes
import os
import time
from contextlib import suppress
from types import TracebackType

import trio

# By ctypes: the os module has these calls from Python 3.13 on only.
_libc = ctypes.CDLL(None, use_errno=True)
_settime = _libc.timerfd_settime
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class _ItimerSpec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


class Timer:
    """One alarm on the monotonic clock (Linux's timerfd), waited for by one task."""

    def __init__(self) -> None:
        self._fd = int(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        self._spec = _ItimerSpec()
        self._by_reference = ctypes.byref(self._spec)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "timerfd_create")

    async def wait_until(self, at_ns: int) -> None:
        """Return at `at_ns` of `time.monotonic_ns()`; a moment that has passed returns after a checkpoint."""
        now_ns = time.monotonic_ns()
        if at_ns <= now_ns:
            await trio.lowlevel.checkpoint()
        else:
            self.ring_by(at_ns)
            await trio.lowlevel.wait_readable(self._fd)
            with suppress(BlockingIOError):  # re-armed in between: the alarm was taken back
                os.read(self._fd, 8)

    def ring_by(self, at_ns: int) -> None:
        """Set the alarm of a task that waits already, to an earlier or a later moment."""
        self._spec.value_s, self._spec.value_ns = divmod(max(at_ns, 1), 1_000_000_000)
        _settime(self._fd, _ABSOLUTE, self._by_reference, None)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "Timer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
