"""What `pip install pdproto` installs checks and proves; the packages of nodes are an extra."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pdproto.runtime.extras import RUNTIME
from tests.cli.own_specs import PAGE

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = (*ROOT.glob("docs/**/*.md"), *ROOT.glob("pdproto/**/*.py"))
IMPORTED = {"pyzmq": "zmq"}  # where a package is not imported by its own name
HIDING = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.split(".")[0] in {hidden!r}:
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
# Several commands in one process, for starting one takes longer than most of them.
RUNNING = """
import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pdproto.cli.main import main

def run(words):
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(words)
    return status, out.getvalue(), err.getvalue()

print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))
"""
IMPORTING = """
import json

def run(code):
    try:
        exec(code)
    except ImportError as error:
        return f"{type(error).__name__}: {error}"

print(json.dumps([run(code) for code in json.loads(sys.argv[1])]))
"""
# What takes long to import, and the check of one small system does not need.
SLOW = (
    "aiohttp", "concurrent.futures", "email", "hypothesis", "importlib.metadata", "logging",
    "multiprocessing", "pdproto.check.opinions.tlc", "pdproto.check.spark", "pdproto.check.suite",
    "pdproto.spec.handoff.transfer", "pdproto.spec.lemmas", "rich._emoji_codes", "scipy", "socket",
    "subprocess", "xml", "z3", "zipfile",
)
CHECK = """
from pdproto.cli.main import main

status = main(["check", sys.argv[1], "--size", "Worker=2", "--no-cache"])
print(*sorted(set(sys.argv[2:]) & sys.modules.keys()), file=sys.stderr)
sys.exit(status)
"""
CHECKING = {
    ("check", "lock-server", "--quiet", "--no-cache"): "1,001 states",
    ("prove", "two-phase-commit", "--quiet", "--no-cache"): "proved",
    ("lint", "lock-server"): "4 notes",
    ("explore", "lock-server", "--text"): "ask(c1, r0)",
    ("run", "lock-server", "--runs", "2"): "no violation was seen",
    ("sim", "lock-server", "--seeds", "2", "--quiet"): "no violation was seen",
    ("fuzz", "lock-server", "--runs", "5"): "no violation was seen",
    ("export", "lock-server", "--markdown"): "Client 3, Round 1",
    ("export", "lock-server", "--tla"): "MODULE",
}
NODES = (
    ("handoff", "--requests", "1"), ("registry",), ("node", "top", "127.0.0.1:1"),
)
IMPORTS = (
    "from pdproto import PrefillNode", "import pdproto.transport", "import pdproto.registry",
    "import pdproto.drivers.zeromq",
)


class Done(NamedTuple):
    """The exit status of a command, and its output."""

    status: int
    out: str
    err: str


def names(requirements: list[str]) -> set[str]:
    """The names by which these packages are imported."""
    found = (re.split(r"[<>=\[]", each)[0] for each in requirements)
    return {IMPORTED.get(name, name.replace("-", "_")) for name in found}


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code where the packages of the runtime are not installed."""
    return subprocess.run(
        [sys.executable, "-c", HIDING.format(hidden=RUNTIME) + code, *arguments], cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_the_packages_of_nodes_are_an_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    assert names(extras["runtime"]) == set(RUNTIME)
    assert names(PROJECT["dependencies"]).isdisjoint(RUNTIME)
    assert names(extras["explore"]) <= set(RUNTIME)


@cache
def printed(code: str, asked: Sequence[object]) -> list[object]:
    """The list that the program prints of those that it is asked for."""
    done = python(code, json.dumps(asked))
    assert (done.returncode, done.stderr) == (0, "")
    found: list[object] = json.loads(done.stdout)
    assert len(found) == len(asked)
    return found


def ran(verb: tuple[str, ...], among: Sequence[tuple[str, ...]]) -> Done:
    """The command, run where the packages are not installed, together with the others."""
    found = printed(RUNNING, tuple(among))[among.index(verb)]
    assert isinstance(found, list)
    return Done(*found)


@pytest.mark.parametrize("verb", CHECKING, ids=" ".join)
def test_a_verb_of_the_checker_needs_none_of_them(verb: tuple[str, ...]) -> None:
    done = ran(verb, (*CHECKING,))
    assert (done.status, done.err) == (0, "")
    assert CHECKING[verb] in done.out


@pytest.mark.parametrize("verb", NODES, ids=lambda verb: verb[0])
def test_a_verb_of_nodes_names_the_extra(verb: tuple[str, ...]) -> None:
    done = ran(verb, NODES)
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(r"pdproto: \w+ is not installed: pip install 'pdproto\[runtime\]'\n",
                        done.err)


def test_the_page_has_an_extra_of_its_own() -> None:
    explore = ("explore", "lock-server")
    done = ran(explore, (explore,))
    assert (done.status, done.err) == (
        2, "pdproto: aiohttp is not installed: pip install 'pdproto[explore]'\n")


@pytest.mark.parametrize("imported", IMPORTS)
def test_a_program_is_told_the_extra(imported: str) -> None:
    told = printed(IMPORTING, IMPORTS)[IMPORTS.index(imported)]
    assert isinstance(told, str)
    assert re.fullmatch(
        r"ModuleNotFoundError: \w+ is not installed: pip install 'pdproto\[runtime\]'", told)


def test_a_first_check_imports_nothing_that_is_slow(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(PAGE, encoding="utf-8")
    done = python(CHECK, f"{tmp_path}/page.py:SYSTEM", *SLOW)
    assert (done.returncode, done.stderr) == (1, "\n")
    assert "VIOLATED  4 states" in done.stdout


def test_processes_on_a_loop_need_none_of_them() -> None:
    done = python("import pdproto.drivers.aio, pdproto.runtime.process, pdproto.testing")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_extra_of_vllm_is_that_of_nodes_and_brings_no_vllm() -> None:
    """vLLM's builds for other hardware have other names: a second vLLM would be installed."""
    assert PROJECT["optional-dependencies"]["vllm"] == ["pdproto[runtime]"]


def test_every_extra_that_a_page_or_an_error_names_is_there() -> None:
    named = {extra: path for path in (ROOT / "README.md", *PAGES) if path.is_file()
             for extras in re.findall(r"pdproto\[([a-z,]+)\]", path.read_text(encoding="utf-8"))
             for extra in extras.split(",")}
    assert {"runtime", "vllm", "testing"} <= named.keys()
    missing = {extra: str(path) for extra, path in named.items()
               if extra not in PROJECT["optional-dependencies"]}
    assert not missing
