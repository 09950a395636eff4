"""The rules of the house: arrows point down, wire does no I/O, one owner per dependency, rooms stay small."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "loadgen"
MODULES = sorted(PACKAGE.rglob("*.py"))

BELOW: dict[str, set[str]] = {
    "wire": set(),
    "net": {"wire"},
    "plan": {"wire"},
    "results": {"wire"},
    "drive": {"wire", "net", "plan", "results"},
    "report": {"results"},
    "servers": {"wire", "net", "plan"},
    "cli": {"wire", "net", "plan", "results", "drive", "report", "servers"},
}
OWNERS = {
    "hdrh": {"results/histogram.py"},
    "typer": {"cli"},
    "polars": {"results", "report"},
    "rich": {"report", "cli"},
    "httptools": {"net", "servers"},
    "httpx": {"net/second.py", "net/complaints.py", "plan/signing.py"},
    "httpcore": {"net/second.py"},
    "h2": {"net/complaints.py", "servers/recorder/http2.py"},
    "botocore": {"plan/signing.py"},
    "ssl": {"net/tls.py"},
    "jinja2": {"report/page/page.py"},
    "fastjsonschema": {"results/checks.py"},
    "prometheus_client": {"results/scrapes.py", "servers/simulated/metrics.py"},
    "tokenizers": {"plan/recordings/tokens.py"},
    "trio": {"net", "drive", "servers", "cli"},
    "asyncio": set(),
    "numpy": set(),
}
IMPURE = {
    "os",
    "io",
    "socket",
    "ssl",
    "select",
    "selectors",
    "subprocess",
    "threading",
    "time",
    "pathlib",
    "trio",
    "httpx",
}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_no_import_runs_uphill(path):
    if room(path) not in BELOW:
        return
    rooms = {name.split(".")[1] for name in imports(path) if name.startswith("loadgen.")} - {"errors"}

    assert set() == rooms - BELOW[room(path)] - {room(path)}


def test_every_room_is_in_the_map():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}

    assert set(BELOW) == rooms
    for name in rooms:
        assert f"    {name} " in (PACKAGE / "__init__.py").read_text()


@pytest.mark.parametrize("dependency", OWNERS)
def test_a_dependency_has_one_owner(dependency):
    users = {path for path in MODULES if any(name.split(".")[0] == dependency for name in imports(path))}
    strangers = {place(path) for path in users if not {room(path), place(path)} & OWNERS[dependency]}

    assert set() == strangers


def test_wire_does_no_io():
    impure = {
        place(path): found
        for path in MODULES
        if room(path) == "wire" and (found := {name.split(".")[0] for name in imports(path)} & IMPURE)
    }

    assert impure == {}


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_a_module_fits_its_budget(path):
    assert len(path.read_text().splitlines()) <= 400


def test_no_module_is_a_drawer():
    drawers = {"utils", "util", "helpers", "common", "core", "manager", "misc"}

    assert set() == {path.stem for path in MODULES} & drawers


def test_nothing_imports_its_own_front_door():
    offenders = {place(path) for path in MODULES if "import loadgen\n" in path.read_text()}

    assert set() == offenders


def test_every_command_is_in_the_readme():
    from loadgen.cli import app

    readme = (ROOT / "README.md").read_text()
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]

    assert [command for command in commands if f"loadgen {command}" not in readme] == []


def test_the_top_level_is_the_agreed_one():
    agreed = {"pyproject.toml", "README.md", "loadgen", "schedules", "tests", "results", "scripts"}
    agreed |= {"CHANGELOG.md", "LICENSE", ".gitignore", ".ci", ".git"}
    made = {".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
    there = {path.name for path in ROOT.iterdir() if not path.name.endswith(".egg-info")}

    assert agreed <= there | {".git"}
    assert set() == there - agreed - made


def test_pins_name_no_registry():
    for path in ROOT.rglob("requirements*.txt"):
        if ".venv" not in path.parts:
            assert "://" not in path.read_text(), path
