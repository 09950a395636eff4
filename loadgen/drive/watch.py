"""The watch over ourselves: a generator that cannot keep up must be the first to say so."""

import os
import resource
from collections import Counter

from loadgen.drive.driver import Driver
from loadgen.drive.pacer import Pacer
from loadgen.net.network import Network
from loadgen.plan.schedule import SECOND_NS
from loadgen.results.histogram import Histogram
from loadgen.results.journal import Journal
from loadgen.results.record import Lags, Sample

TICK_NS = 10_000_000
FLUSH_NS = 250_000_000
LAGS_NS = 10 * SECOND_NS
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Ticks every 10 ms; keeps loop lag and read lag, samples the process each second, flushes the journal."""

    def __init__(self, driver: Driver, network: Network, *, pacer: Pacer, journal: Journal) -> None:
        self._driver = driver
        self._network = network
        self._pacer = pacer
        self._journal = journal
        # Opened once, and before the load: it may leave no descriptor to open it with.
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._schedstat = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel without scheduler statistics
            self._schedstat = -1
        self._own_descriptors = len(os.listdir("/proc/self/fd")) - network.open
        self._loop_lag = Histogram()
        self._read_lag = Histogram()
        self._read_lags_us: Counter[int] = Counter()

    async def run(self) -> None:
        """Watch until cancelled."""
        flush_ns = sample_ns = lags_ns = self._pacer.now()
        while True:
            due_ns = self._pacer.now() + TICK_NS
            await self._pacer.wait_until(due_ns)
            now = self._pacer.now()
            self._loop_lag.record(now - due_ns)
            self._take_read_lags()
            if now >= flush_ns:
                flush_ns = now + FLUSH_NS
                self._journal.flush()
            if now >= sample_ns:
                sample_ns = now + SECOND_NS
                self.sample()
            if now >= lags_ns:
                lags_ns = now + LAGS_NS
                self.keep_lags()

    def close(self) -> None:
        os.close(self._statm)
        if self._schedstat >= 0:
            os.close(self._schedstat)

    def sample(self) -> None:
        """Journal what the process uses now."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        resident = int(os.pread(self._statm, 64, 0).split()[1]) * _PAGE_BYTES
        self._journal.append(
            Sample(
                at_ns=self._pacer.now(),
                cpu_ns=round((used.ru_utime + used.ru_stime) * SECOND_NS),
                core_wait_ns=int(os.pread(self._schedstat, 64, 0).split()[1]) if self._schedstat >= 0 else None,
                resident_bytes=resident,
                descriptors=self._own_descriptors + self._network.open,
                connections=self._network.open,
                in_flight=self._driver.in_flight,
            )
        )

    def keep_lags(self) -> None:
        """Journal the lags so far."""
        self._take_read_lags()
        for microseconds, times in self._read_lags_us.items():
            self._read_lag.record(microseconds * 1_000, times)
        self._read_lags_us.clear()
        self._journal.append(
            Lags(at_ns=self._pacer.now(), read_lag=self._read_lag.blob(), loop_lag=self._loop_lag.blob())
        )

    def _take_read_lags(self) -> None:
        # Counted by the microsecond first: a histogram's own record costs as much as reading a frame's half.
        self._read_lags_us.update([lag // 1_000 for lag in self._network.lags_ns])
        self._network.lags_ns.clear()
