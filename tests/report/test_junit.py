"""Gates as JUnit XML: a case each, and one for validity where it is required."""

from xml.etree import ElementTree as ET

import pytest
from report.folder import closed, folder_of, stream, unanswered

from loadgen.cli.judging import Judging
from loadgen.cli.summary import close_run
from loadgen.errors import UsageError
from loadgen.report.junit import write_junit

QUIET = [stream(0, 0, [100, 300]), stream(1, 500, [200, 300])]
SPOILT = [*QUIET, unanswered(2, 900, outcome="client_limit", detail="ports", reads=0)]


def suite_of(tmp_path, judging: Judging, rows=QUIET) -> ET.Element:
    """Judge a run of these rows, write its file, read it back."""
    due = [(row.due_ns or 0) / 1e6 for row in rows]
    path = tmp_path / "gates.xml"
    write_junit(path, close_run(folder_of(tmp_path / "run", [*rows, closed(2000)], due=due, length=1000.0), judging))
    assert path.read_bytes().startswith(b"<?xml")
    return ET.parse(path).getroot()


def test_each_gate_is_a_case_and_a_failed_one_says_what_was_measured(tmp_path):
    gates = ["llm.ttft-p50 > 800", "llm.ttft-max > 150", "llm.input-tokens > 5"]

    suite = suite_of(tmp_path, Judging(fail_if=gates, require_valid=False))

    assert ("testsuite", "loadgen run", "3", "2") == (suite.tag, *map(suite.get, ("name", "tests", "failures")))
    assert [*gates] == [case.get("name") for case in suite]
    assert {"loadgen"} == {case.get("classname") for case in suite}
    passed, failed, absent = suite
    assert ("150 ms is not > 800", None) == (passed.findtext("system-out"), passed.find("failure"))
    assert "200 ms is > 150" == failed.find("failure").get("message")
    assert "no samples: this run has no llm.input-tokens" == absent.find("failure").get("message")


def test_goals_are_cases_too(tmp_path):
    suite = suite_of(tmp_path, Judging(goals={"llmTtftP50": {"too_high": 100, "too_low": 10}}, require_valid=False))

    assert ["llm.ttft-p50 > 100", "llm.ttft-p50 < 10"] == [case.get("name") for case in suite]
    assert "1" == suite.get("failures")


def test_validity_is_the_first_case_where_it_is_required(tmp_path):
    suite = suite_of(tmp_path, Judging(fail_if=["llm.ttft-p50 > 800"]), SPOILT)

    valid, gate = suite
    assert ("2", "1") == (suite.get("tests"), suite.get("failures"))
    assert ("valid", "llm.ttft-p50 > 800") == (valid.get("name"), gate.get("name"))
    assert "1 requests met a limit of this machine (ports), not of the server" in valid.find("failure").get("message")
    assert gate.find("failure") is None


def test_a_valid_run_passes_its_validity(tmp_path):
    suite = suite_of(tmp_path, Judging(require_valid=True))

    (valid,) = suite
    assert ("1", "0", None) == (suite.get("tests"), suite.get("failures"), valid.find("failure"))
    assert valid.findtext("system-out")


def test_an_invalid_run_may_be_allowed(tmp_path):
    suite = suite_of(tmp_path, Judging(fail_if=["llm.ttft-p50 > 800"], require_valid=False), SPOILT)

    assert ["llm.ttft-p50 > 800"] == [case.get("name") for case in suite]


@pytest.mark.parametrize(
    "klass", ['<b>&"quoted"</b>', "größe 漢字 🦆", "two\nlines\tand a tab", "bell\x07 nul\x00 \ufffe"]
)
def test_any_name_of_a_class_makes_xml_that_can_be_read(tmp_path, klass):
    suite = suite_of(tmp_path, Judging(fail_if=[f"llm.ttft-p95[{klass}] > 1"], require_valid=False))

    (case,) = suite
    legal = "".join("\ufffd" if c in "\x07\x00\ufffe" else c for c in klass)
    assert f"llm.ttft-p95[{legal}] > 1" == case.get("name")
    assert f"no samples: none of 0 requests of class {legal} has llm.ttft" == case.find("failure").get("message")


def test_a_run_without_gates_has_no_cases(tmp_path):
    suite = suite_of(tmp_path, Judging())

    assert ("0", "0", []) == (suite.get("tests"), suite.get("failures"), [*suite])


def test_an_older_file_is_replaced(tmp_path):
    (tmp_path / "gates.xml").write_text("x" * 10_000)

    assert "1" == suite_of(tmp_path, Judging(fail_if=["llm.requests < 1"], require_valid=False)).get("tests")


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    summary = close_run(folder_of(tmp_path / "run", [*QUIET, closed(2000)], due=[0, 500], length=1000.0))

    with pytest.raises(UsageError, match=r"nowhere/gates\.xml: No such file or directory\nhint: give a --junit"):
        write_junit(tmp_path / "nowhere" / "gates.xml", summary)


@pytest.mark.parametrize(
    ("name", "fact"), [("nowhere/gates.xml", "there is no such folder"), (".", "this is a folder")]
)
def test_a_file_that_cannot_be_is_refused_before_anything_is_sent(tmp_path, name, fact):
    with pytest.raises(UsageError, match=f"{fact}\nhint: "):
        Judging(junit=tmp_path / name).check((), has_recorded=False)
