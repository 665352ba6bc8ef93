"""Ctrl-C at any moment: the status says so, no file is half written, and nothing is said to hold.

The process gets SIGINT from itself, before a certain call of a Python function: the moments are the
same wherever the test runs, and each night draws others.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final

import pytest

from lab.__main__ import main
from pdproto.check.result import Verdict
from tests import tonight
from tests.check.trace.alterations import GOLDEN

UNKNOWN: Final = 3
BY_NIGHT: Final = 12
TRACES: Final = tuple(map(str, sorted(GOLDEN.glob("*.jsonl"))))
COMMANDS: Final = {
    "explore": ("explore", "lock-server", "--text"),
    "markdown": ("export", "lock-server", "--markdown", "--output", "x.md"),
    "tla": ("export", "two-phase-commit", "--tla", "--output", "x.tla"),
    "dot": ("export", "two-phase-commit", "--dot", "--output", "x.dot"),
    "bugs": ("bugs", "early-decision", "--quiet", "--no-cache"),
    "check": ("check", "two-phase-commit", "--quiet", "--no-cache", "--workers", "1",
              "--json", "x.json", "--html", "x.html"),
    "prove": ("prove", "two-phase-commit", "--quiet", "--no-cache", "--workers", "1",
              "--json", "x.json", "--export", "proof"),
    "suggest": ("prove", "two-phase-commit", "--quiet", "--workers", "1", "--suggest",
                "--json", "x.json"),
    "lint": ("lint", "two-phase-commit", "--json", "x.json"),
    "run": ("run", "two-phase-commit", "--runs", "20", "--json", "x.json"),
    "sim": ("sim", "two-phase-commit", "--json", "x.json"),
    "trace": ("trace", *TRACES, "--json", "x.json", "--html", "x.html"),
    "mutate": ("mutate", "two-phase-commit", "--sample", "2", "--quiet", "--no-cache",
               "--workers", "1", "--json", "x.json"),
}
BY_DAY: Final = ("explore", "dot", "check", "lint", "trace")
# An interrupt that comes while an object is destroyed is ignored, and the answer is whole.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
OF_THE_RUN: Final = {"seconds", "memory_bytes", "peak_bytes", "recalled"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder; and Ctrl-C as a shell's user has it, also where the tests ignore it."""
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def asked(name: str, before_call: int | None, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Run the command, with Ctrl-C before this call; the status, and the number of calls."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        if event == "call":
            calls += 1
            if calls == before_call:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys, "stdin", StringIO("1\n1\n?\nq\n"))
    sys.setprofile(count)
    try:
        status = main(COMMANDS[name])
    except KeyboardInterrupt:  # before the command has begun, or after its answer
        status = 128 + signal.SIGINT
    finally:
        sys.setprofile(None)
    return status, calls


def written() -> dict[str, Any]:
    """The files below this folder: each JSON without what differs between two runs; and removes
    them.
    """
    found: dict[str, Any] = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            found[str(path)] = without_the_run(json.loads(text)) if path.suffix == ".json" else text
            path.unlink()
    return found


def without_the_run(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: without_the_run(value) for key, value in told.items() if key not in OF_THE_RUN}
    return [*map(without_the_run, told)] if isinstance(told, list) else told


def moments(name: str, calls: int) -> Iterator[int]:
    """Of so many calls: one by day, and others each night."""
    chosen = Random(f"{name} {os.environ[tonight.VARIABLE]}")  # noqa: S311 - no secret
    yield calls // 2
    yield from (chosen.randrange(1, calls) for _ in range(BY_NIGHT))


def is_as_expected(status: int, whole: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether the answer is the whole one, or says that it is not, in files that are whole."""
    if status == whole:
        return found == right
    told = [one for path, found_one in found.items() if path.endswith(".json")
            for one in (found_one if isinstance(found_one, list) else [found_one])]
    others = {path: one for path, one in found.items() if not path.endswith((".json", ".html"))}
    return (status in (UNKNOWN, 128 + signal.SIGINT) and others.items() <= right.items()
            and (found == right or all(one.get("verdict") != Verdict.HOLDS for one in told)))


def compare_at(
    name: str, monkeypatch: pytest.MonkeyPatch, of: Callable[[Iterator[int]], Any]
) -> None:
    asked(name, None, monkeypatch)  # what is imported is imported once
    written()
    whole, calls = asked(name, None, monkeypatch)
    right = written()
    for moment in of(moments(name, calls)):
        status, _ = asked(name, moment, monkeypatch)
        found = written()
        assert is_as_expected(status, whole, found, right), (
            f"before call {moment} of {calls}: {status}, {sorted(found)}")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in BY_DAY else pytest.mark.nightly) for name in COMMANDS])
def test_a_command_is_interrupted_half_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_at(name, monkeypatch, lambda every: [next(every)])


@pytest.mark.nightly
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_interrupted_at_any_moment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_at(name, monkeypatch, list)
