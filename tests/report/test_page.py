"""Reports in a real browser: every section on every kind of run, no complaint, and streams that can be looked at."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import loadgen
from report.browser import CHROMIUM, Browser
from report.folder import LONG, SHORT, closed, folder_of, stream, unanswered, unsent
from report.test_replays import replayed, was

from loadgen.cli.judging import Judging
from loadgen.cli.summary import close_run
from loadgen.report.compare import Run
from loadgen.report.page import run_page
from loadgen.results.record import Record, Scrape

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (apt-get install chromium)")
SECTIONS = ["verdict", "accounting", "latency", "time", "worst", "stream", "how"]
LARGE = 100_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


def page_of(path: Path, records: list[Record], **given: object) -> Path:
    """A run's page, of rows that nobody sent."""
    rundir = folder_of(path / "run", records, **given)  # type: ignore[arg-type]
    close_run(rundir, Judging(slo=["ttft<80ms"]))
    run = Run.read(rundir.path)
    page = path / "report.html"
    page.write_text(run_page(run.measured, run.summary), "utf-8")
    return page


def full(count: int = 60) -> list[Record]:
    """Streams of two classes, cut ones, rejected ones, one that was never sent."""
    rows: list[Record] = []
    for seq in range(count):
        place = LONG if seq % 4 == 3 else SHORT
        due = 100.0 * seq
        if seq % 10 == 7:
            rows.append(unanswered(seq, due, outcome="rejected", status=503, place=place))
        elif seq % 10 == 8:
            outputs = [50.0, 70.0]
            rows.append(stream(seq, due, outputs, place=place, finished=False, outcome="interrupted", detail="reset"))
        else:
            rows.append(stream(seq, due, [40.0 + seq, 60.0 + seq, 90.0 + seq], place=place, late=0.3))
    return [*rows, unsent(count, 100.0 * count), closed(100.0 * count + 500)]


@pytest.fixture(scope="module")
def full_page(tmp_path_factory) -> Path:
    return page_of(
        tmp_path_factory.mktemp("full"),
        full(),
        due=[100.0 * seq for seq in range(61)],
        length=6100.0,
        slo=["ttft<80ms"],
    )


def sections(browser: Browser) -> list[str]:
    found: list[str] = browser.evaluate("[...document.querySelectorAll('section')].map((one) => one.id)")
    return found


def drawn(browser: Browser) -> None:
    """Scroll past everything, so that all charts are drawn."""
    browser.evaluate("document.querySelectorAll('[data-chart]').forEach((one) => one.scrollIntoView())")
    browser.wait("[...document.querySelectorAll('[data-chart]')].every((one) => one.querySelector('canvas'))")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_full_run_has_every_section_and_draws_every_chart(browser, full_page, width, dark):
    browser.open(full_page, width=width, dark=dark)
    drawn(browser)

    assert [*SECTIONS[:3], "classes", *SECTIONS[3:]] == sections(browser)
    assert 9 == browser.evaluate("document.querySelectorAll('[data-chart] canvas').length")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert [] == browser.errors


def test_what_became_of_everything_is_on_the_page(browser, full_page):
    browser.open(full_page)
    text = browser.evaluate("document.getElementById('accounting').innerText")

    for words in ("completed", "rejected", "interrupted", "unsent", "good", "ttft<80ms", "reset (6)"):
        assert words in text


def test_a_replay_shows_what_was_recorded_and_a_scraped_run_what_its_servers_said(browser, tmp_path):
    now = [stream(0, 0, [100.0, 200.0], place=SHORT), stream(1, 1000, [100.0, 300.0], place=LONG)]
    told = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n"
    scrape = Scrape(
        at_ns=0, replica="http://127.0.0.1:8000/metrics", failure=None, content_type="text/plain", server=None,
        body=told.encode(),
    )  # fmt: skip
    rundir = replayed(tmp_path / "run", [was(0, [80.0, 180.0]), was(1, [80.0, 280.0])], [*now, scrape], recorded=True)
    close_run(rundir)
    run = Run.read(rundir.path)
    page = tmp_path / "report.html"
    page.write_text(run_page(run.measured, run.summary), "utf-8")
    browser.open(page)
    drawn(browser)

    assert "by 10 % or more for the worse against the recording: ttft p50" in browser.evaluate(
        "document.getElementById('verdict').innerText"
    )
    assert "+25.0 %" in browser.evaluate("document.getElementById('latency').innerText")
    assert "completed" in browser.evaluate("document.getElementById('accounting').innerText")
    assert browser.evaluate("document.querySelector('#server canvas') !== null")
    assert [] == browser.errors


def test_a_run_in_which_nothing_was_sent_has_a_page(browser, tmp_path):
    page = page_of(tmp_path, [unsent(0, 0), closed(100)], due=[0.0], length=1000.0)
    browser.open(page)

    assert set(SECTIONS) <= {*sections(browser)}
    assert "No request was sent" in browser.evaluate("document.getElementById('stream').innerText")
    assert [] == browser.errors


def test_a_run_that_failed_throughout_has_a_page(browser, tmp_path):
    rows: list[Record] = [
        unanswered(seq, 10.0 * seq, outcome="connect_error", detail="refused", status=None) for seq in range(50)
    ]
    page = page_of(tmp_path, [*rows, closed(1000)], due=[10.0 * seq for seq in range(50)], length=500.0)
    browser.open(page)
    drawn(browser)

    assert set(SECTIONS) <= {*sections(browser)}
    assert "No stream of a language model was seen" in browser.evaluate("document.body.innerText")
    assert "No frame came" in browser.evaluate("document.getElementById('stream-detail').innerText")
    assert [] == browser.errors


def test_a_large_run_stays_small_and_opens_at_once_and_keeps_its_highest(browser, tmp_path):
    highest = 4321.0
    rows: list[Record] = [
        stream(seq, 2.0 * seq, [highest if seq == LARGE // 3 else 20.0 + seq % 7, 5000.0], place=SHORT)
        for seq in range(LARGE)
    ]
    page = page_of(tmp_path, [*rows, closed(2.0 * LARGE)], due=[2.0 * seq for seq in range(LARGE)], length=2.0 * LARGE)
    browser.open(page)
    took_ms = browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    charts = browser.evaluate("JSON.parse(document.getElementById('data').textContent).charts")
    shown = {
        chart["id"]: [value for line in chart["data"][1:] for value in line if value is not None] for chart in charts
    }

    assert page.stat().st_size < 5_000_000
    assert took_ms < 10_000  # measured: well under one second; a shared machine may be slow
    assert highest == max(shown["ttft-time"])
    assert highest in shown["latency"]
    assert str(LARGE // 3) in browser.evaluate("document.getElementById('worst').innerText")
    assert [] == browser.errors


def test_a_stream_is_seen_by_click_and_by_keyboard(browser, full_page):
    def shown() -> str:
        text: str = browser.evaluate("document.querySelector('#stream-detail h3').textContent")
        return text

    browser.open(full_page)
    first = shown()
    browser.click("#worst tbody tr:nth-child(3) a")
    by_click = shown()
    browser.evaluate("document.getElementById('streams').focus()")
    browser.press("ArrowDown")
    browser.wait(f"document.querySelector('#stream-detail h3').textContent !== {by_click!r}")
    by_key = shown()

    assert 3 == len({first, by_click, by_key})
    assert browser.evaluate("document.querySelector('#worst tbody tr:nth-child(3) a').textContent") in by_click
    assert browser.evaluate("document.querySelectorAll('#stream-detail svg line').length") > 4
    words = browser.evaluate("document.querySelector('#stream-detail svg').textContent")
    assert all(word in words for word in ("first output (ttft)", "first text", "last output"))
    rows = browser.evaluate("document.querySelectorAll('#stream-detail tbody tr').length")
    assert rows in (2, 4)  # two outputs of a cut stream; three and the end marker
    assert [] == browser.errors


def test_every_chart_has_its_table_and_every_control_a_name(browser, full_page):
    browser.open(full_page)

    assert browser.evaluate(
        "[...document.querySelectorAll('figure')].every((one) => one.querySelector('details table'))"
    )
    assert browser.evaluate("document.getElementById('streams').getAttribute('aria-label').length > 0")
    assert "en" == browser.evaluate("document.documentElement.lang")


def test_what_a_server_says_cannot_break_out_of_the_page(browser, tmp_path):
    evil = "</script><script>console.error('broken out')</script>"
    row = stream(0, 0, [10.0, 20.0], outcome="api_error", detail=evil, finished=False)
    browser.open(page_of(tmp_path, [row, closed(100)], due=[0.0], length=1000.0, label=evil))

    assert [] == browser.errors
    assert evil in browser.evaluate("document.body.innerText")


def test_a_sweep_and_a_comparison_have_pages_by_the_command(browser, simulate, tmp_path):
    url = simulate("--ttft", "20ms", "--itl", "2ms", "--tokens", "5", "--slots", "0")
    asked = ("--prompt", "hi", "--model", "sim", "--cache", "warm", "--requests", "30", "--allow-invalid")
    for name, rate in (("a", "30"), ("b", "30"), ("c", "60")):
        loadgen("run", url, *asked, "--rate", rate, "--out", tmp_path / name)
    single = loadgen("report", tmp_path / "a")
    compared = loadgen("report", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "compared.html")
    levels = loadgen("report", tmp_path / "a", tmp_path / "c", "--out", tmp_path / "levels.html")

    assert f"report: {tmp_path / 'a' / 'report.html'}\n" == single.stdout
    assert (0, 0) == (compared.returncode, levels.returncode), compared.stderr + levels.stderr
    browser.open(tmp_path / "compared.html")
    drawn(browser)
    assert ["sides", "accounting", "shifts", "curves"] == sections(browser)
    assert [] == browser.errors
    browser.open(tmp_path / "levels.html")
    drawn(browser)
    assert ["levels", "curves"] == sections(browser)
    assert [] == browser.errors
