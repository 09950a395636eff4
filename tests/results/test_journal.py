"""The journal: whatever the cut, the whole records before it are read back, and no more."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.results.journal import Journal, read_journal
from loadgen.results.record import Closed, Lags, Planned, Record, Row, Sample, Sent

RECORDS: list[Record] = [
    Planned("a", None, "s", "POST", "/v1", "m", 17, 5),
    Sent(0, 3, 1, 1_000_000_007),
    Row(
        seq=0,
        place=3,
        outcome="completed",
        status=200,
        finished=True,
        finish_reason="stöp",
        retry_after_s=0.5,
        due_ns=2**40,
        sent_ns=2**40 + 1,
        output_tokens=7,
        tokens_approximate=True,
        frames=2,
        connection_reused=False,
        stamp_source="kernel",
        frame_at_ns=bytes(range(16)),
        frame_bytes=b"\0\xff" * 4,
        frame_kinds=b"\0\7",
    ),
    Sample(10, 20, 30, 40, 50, 60, 70),
    Lags(5, b"HISTF", b""),
    Row(seq=1, place=0, outcome="unsent"),
    Closed(99, "SIGINT"),
]


def written(path: Path, records: list[Record]) -> list[int]:
    """Write a journal; return where each record ends."""
    journal = Journal(path)
    ends = []
    for record in records:
        journal.append(record)
        journal.flush()
        ends.append(path.stat().st_size)
    journal.close()
    return ends


def test_a_journal_reads_back_what_was_appended(tmp_path):
    written(tmp_path / "journal", RECORDS)

    assert RECORDS == list(read_journal(tmp_path / "journal"))


def test_a_journal_cut_at_any_byte_gives_back_the_whole_records_before(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    ends = written(whole, RECORDS)
    data = whole.read_bytes()

    for size in range(len(data) + 1):
        cut.write_bytes(data[:size])

        assert RECORDS[: sum(end <= size for end in ends)] == list(read_journal(cut))


@given(
    st.lists(
        st.builds(
            Row,
            seq=st.integers(0, 2**40),
            place=st.integers(0, 2**20),
            outcome=st.sampled_from(["completed", "timeout", "unfinished"]),
            detail=st.none() | st.text(max_size=5),
            finished=st.none() | st.booleans(),
            due_ns=st.none() | st.integers(0, 2**60),
            retry_after_s=st.none() | st.floats(0, 1e9),
            frame_at_ns=st.binary(max_size=70_000),
        ),
        max_size=5,
    )
)
def test_any_rows_are_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("journal") / "journal"
    written(path, rows)

    assert rows == list(read_journal(path))


def test_nothing_is_on_disk_before_a_flush_and_all_after_it(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)

    journal.append(RECORDS[0])
    journal.append(RECORDS[1])
    assert 0 == path.stat().st_size

    journal.flush()
    assert RECORDS[:2] == list(read_journal(path))
    journal.close()


def test_closing_writes_what_was_left(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append(RECORDS[0])
    journal.close()

    assert RECORDS[:1] == list(read_journal(path))


def test_a_journal_is_never_written_over(tmp_path):
    path = tmp_path / "journal"
    Journal(path).close()

    with pytest.raises(FileExistsError):
        Journal(path)


def test_what_could_not_be_written_is_written_when_there_is_room_again(tmp_path):
    # A pipe that nobody empties is a disk that is full for a while.
    path = tmp_path / "journal"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    journal = Journal(tmp_path / "other")
    os.dup2(writer, journal._fd)
    rows = [Row(seq=seq, place=0, outcome="completed", frame_at_ns=bytes(50_000)) for seq in range(4)]
    for row in rows:
        journal.append(row)

    with pytest.raises(BlockingIOError) as raised:
        journal.flush()
    assert errno.EAGAIN == raised.value.errno
    data = os.read(reader, 1 << 20)
    while journal._buffer:
        try:
            journal.flush()
        except BlockingIOError:
            data += os.read(reader, 1 << 20)
    data += os.read(reader, 1 << 20)
    journal.close()
    os.close(writer)
    os.close(reader)

    (tmp_path / "read").write_bytes(data)
    assert rows == list(read_journal(tmp_path / "read"))
