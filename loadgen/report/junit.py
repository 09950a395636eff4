"""Gates as JUnit XML, which every CI system shows: one test case each, and one for the run's validity."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from loadgen.errors import UsageError


def write_junit(path: Path, summary: dict[str, Any]) -> None:
    """Write a judged summary's gates; raises UsageError where the file cannot be written."""
    cases = [(gate["gate"], gate["passed"], gate["words"]) for gate in summary["gates"]]
    if summary["requires_valid"]:
        verdict = summary["verdict"]
        facts = "; ".join(reason["fact"] for reason in verdict["reasons"] if reason["level"] == "invalid")
        cases.insert(0, ("valid", verdict["valid"], facts or "the generator measured the server, not itself"))
    failures = sum(not passed for _, passed, _ in cases)
    suite = ET.Element("testsuite", name=f"loadgen {summary['run']}", tests=str(len(cases)), failures=str(failures))
    for name, passed, words in cases:
        case = ET.SubElement(suite, "testcase", classname="loadgen", name=_legal(name))
        if passed:
            ET.SubElement(case, "system-out").text = _legal(words)
        else:
            ET.SubElement(case, "failure", message=_legal(words))
    ET.indent(suite)
    try:
        path.write_bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="give a --junit that you can write") from None


def _legal(text: str) -> str:
    """Replace what XML 1.0 has no way to say, escaped or not: a class can be named anything."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
