"""How a system is found, and that every way not to find it is one line with a cause and a fix."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.check.load import LoadError
from pdproto.cli.systems import BUILT_IN, load
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.system import System

IDLE = """
from pdproto.spec.language import Machine, System, Table
SYSTEM = System("idle", "Nothing happens.", tables=(Table(Machine("nobody")),))
"""
ELSEWHERE = """
from dataclasses import dataclass
@dataclass
class Pair:
    one: int = 1
    two: int
"""
MALFORMED = """
from pdproto.spec.language import Machine
Machine("nobody").relation("no name")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's own folder; what is imported from it is forgotten, and the path is as it was."""
    monkeypatch.chdir(tmp_path)
    modules, path = set(sys.modules), list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in set(sys.modules) - modules:
        if not name.startswith("pdproto"):
            del sys.modules[name]


def save(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refusal(name: str) -> str:
    with pytest.raises(LoadError) as caught:
        load(name)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_systems_have_their_names(name: str) -> None:
    assert load(name).name == name


@pytest.mark.parametrize("name", ["spec.py", "a folder/my spec.py", "two.dots.py"])
def test_a_file(name: str) -> None:
    path = save(name, IDLE)
    assert load(f"{name}:SYSTEM").name == "idle"
    assert load(f"{path.resolve()}:SYSTEM").name == "idle"


def test_a_file_imports_its_neighbours() -> None:
    save("far/neighbour_of_a_spec.py", IDLE)
    save("far/spec.py", "from neighbour_of_a_spec import SYSTEM\n")
    assert load("far/spec.py:SYSTEM").name == "idle"


@pytest.mark.parametrize("init", [True, False])
def test_a_module_in_the_working_directory(init: bool) -> None:
    """As `python -m` would find it, although the command is installed elsewhere."""
    package = f"package_of_specs_{init}"
    if init:
        save(f"{package}/__init__.py", "")
    save(f"{package}/specs.py", IDLE)
    assert load(f"{package}.specs:SYSTEM").name == "idle"


def test_a_file_does_not_take_the_place_of_a_module_in_use() -> None:
    import json  # noqa: PLC0415 - the module that must stay

    save("json.py", IDLE)
    assert load("json.py:SYSTEM").name == "idle"
    assert sys.modules["json"] is json


def test_a_spec_that_changed_is_read_anew() -> None:
    save("spec.py", IDLE)
    first = load("spec.py:SYSTEM")
    save("spec.py", IDLE.replace('"idle"', '"changed"'))
    assert (first.name, load("spec.py:SYSTEM").name) == ("idle", "changed")


def test_output_of_a_spec_is_no_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    save("spec.py", f"print('reading')\n{IDLE}")
    load("spec.py:SYSTEM")
    assert tuple(capsys.readouterr()) == ("", "reading\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def half():\n    return 1 / 0\nhalf()\n",
         "spec.py:2: importing spec.py raised ZeroDivisionError: division by zero"),
        ("import a_missing_neighbour\n",
         "spec.py:1: there is no module 'a_missing_neighbour': install its package, or correct "
         "the name"),
        ("import spec.missing\n",
         "spec.py:1: importing spec.py raised ModuleNotFoundError: No module named "
         "'spec.missing'; 'spec' is not a package"),
        ("from . import neighbour\n",
         "spec.py:1: importing spec.py raised ImportError: attempted relative import with no "
         "known parent package"),
        ("x = (\n", "spec.py:1: '(' was never closed"),
        ("import sys\nsys.exit(0)\n", "spec.py:2: importing spec.py raised SystemExit: 0"),
        ("def f():\n    f()\nf()\n",
         "spec.py:2: importing spec.py raised RecursionError: maximum recursion depth exceeded"),
        ("raise BaseException('odd')\n", "spec.py:1: importing spec.py raised BaseException: odd"),
        ("raise ValueError\n", "spec.py:1: importing spec.py raised ValueError"),
        ("x = 1\ny = TRUE\n", "spec.py:2: TRUE is not imported: write `from "
         "pdproto.spec.language import TRUE`"),
        ("x = TRU\n", "spec.py:1: importing spec.py raised NameError: name 'TRU' is not defined"),
        ("raise ValueError('two\\nlines')\n",
         "spec.py:1: importing spec.py raised ValueError: two lines"),
        (ELSEWHERE, "spec.py:3: importing spec.py raised TypeError: non-default argument 'two' "
         "follows default argument"),
        ("x = 1\n", "spec.py has no 'SYSTEM'; its systems: none"),
        (IDLE.replace("SYSTEM", "MINE"), "spec.py has no 'SYSTEM'; its systems: MINE"),
        ("SYSTEM = 3\n", "'SYSTEM' in spec.py is a int, not a System; its systems: none"),
    ],
)  # fmt: skip
def test_a_spec_that_raises(text: str, said: str) -> None:
    save("spec.py", text)
    assert refusal("spec.py:SYSTEM") == said


def test_nothing_half_imported_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "spec", raising=False)  # of another test
    save("spec.py", "begun = True\nraise ValueError\n")
    refusal("spec.py:SYSTEM")
    assert "spec" not in sys.modules


def test_a_file_that_is_no_text() -> None:
    Path("spec.py").write_bytes(b"\xff\xfe")
    assert refusal("spec.py:SYSTEM").startswith("spec.py:1: (unicode error) 'utf-8' codec")


def test_a_malformed_spec_tells_its_own_line() -> None:
    save("spec.py", MALFORMED)
    with pytest.raises(SpecError, match=r"^spec\.py:3: "):
        load("spec.py:SYSTEM")


def test_an_interrupt_is_not_the_specs_fault() -> None:
    save("spec.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load("spec.py:SYSTEM")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("spec.py", "'spec.py' names no system: add the name that it has in the file, "
         "spec.py:SYSTEM"),
        ("missing.py:SYSTEM", "missing.py does not exist"),
        ("folder.py:SYSTEM", "folder.py is a directory, and not a file"),
        ("no_such_module:SYSTEM",
         "there is no module 'no_such_module' here or among the installed packages"),
        ("folder.specs:SYSTEM",
         "there is no module 'folder.specs' here or among the installed packages"),
        ("json.spec:SYSTEM", "there is no module 'json.spec' here or among the installed packages; "
         "for the file write json/spec.py:…"),
        ("./spec:SYSTEM", "'./spec' is neither a module nor a file that ends in .py"),
        (".:SYSTEM", "'.' is neither a module nor a file that ends in .py"),
        ("spec.py:SYSTEM:x", "'spec.py:SYSTEM' is neither a module nor a file that ends in .py"),
    ],
)  # fmt: skip
def test_a_name_that_leads_nowhere(name: str, said: str) -> None:
    save("spec.py", IDLE)
    save("json/spec.py", IDLE)
    Path("folder.py").mkdir()
    assert refusal(name) == said


@pytest.mark.parametrize("name", ["Lock-Server", "lock_server"])
def test_a_mistyped_name_gets_a_suggestion(name: str) -> None:
    assert refusal(name).startswith(f"{name!r} is no built-in system (perhaps lock-server")


@pytest.mark.parametrize("name", ["", ".", ":SYSTEM"])
def test_an_unknown_name_is_told_the_known_ones(name: str) -> None:
    line = refusal(name)
    assert line.startswith(f"{name!r} is no built-in system (two-phase-commit, lock-server, ")
    assert line.endswith("give `module:attribute` or `path/to/file.py:attribute`")


def test_a_module_whose_own_import_is_missing_is_not_called_missing() -> None:
    save("spec_with_a_prefix.py", "import spec_with\n")
    assert refusal("spec_with_a_prefix:SYSTEM") == (
        "spec_with_a_prefix.py:1: there is no module 'spec_with': install its package, or "
        "correct the name"
    )


def test_an_error_inside_the_language_is_shown_where_the_user_wrote() -> None:
    save("spec.py", "from pdproto.spec.language import System\nSYSTEM: System = System()\n")
    assert refusal("spec.py:SYSTEM").startswith(
        "spec.py:2: System lacks name and about and tables; it takes: name, about, tables,"
    )
    assert isinstance(load("lock-server"), System)


def test_a_file_is_read_anew_after_a_change_that_its_time_and_length_do_not_show(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor and CI write twice in a second."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file, found = folder / "idle.py", []
    for name in ("idle", "calm"):
        file.write_text(IDLE.replace('"idle"', f'"{name}"'), encoding="utf-8")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        found.append(load(f"{file}:SYSTEM").name)
    assert found == ["idle", "calm"]
