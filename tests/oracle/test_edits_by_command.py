"""The command line gives each edited system its own answer, whatever it has kept of the others.

The systems are random edits (edits.py) in one module, as a user's file after each save. Options and
sizes are drawn too. Each question is asked with the caches and records of all others, and without.
"""

import json
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pdproto.cli.main import main
from pdproto.spec.language import Configuration, System
from tests.oracle.edits import told_apart
from tests.oracle.test_edits import decided, fresh, is_answer, seeds, unkept

Output = pytest.CaptureFixture[str]
EDITS, QUESTIONS = 5, 14
SWITCHES = (
    ["--symmetry"], ["--no-symmetry"], ["--dead-bits"], ["--keep-going"], ["--faults", "none"],
    ["--engine", "portable"], ["--fairness", "no-timers"], ["--fairness", "detectors"],
    ["--workers", "2"],
)
# What may differ between two answers to one question.
OF_THE_RUN = {"seconds", "recalled", "memory_bytes"}
DECIDED = {"proved", "failed"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def named(
    monkeypatch: pytest.MonkeyPatch, found: Iterable[tuple[System, Configuration, object]]
) -> dict[str, System]:
    """The edited systems by the names by which the command line finds them."""
    module = types.ModuleType("edited_systems")
    systems = {}
    for number, (system, configuration, _) in enumerate(found):
        vars(system)["configurations"] = {"default": configuration}
        setattr(module, f"S{number}", system)
        systems[f"edited_systems:S{number}"] = system
    monkeypatch.setitem(sys.modules, "edited_systems", module)
    return systems


def asked(capsys: Output, *arguments: str) -> tuple[int, dict[str, Any] | str]:
    """The exit status, and the JSON or the refusal."""
    status = main([*arguments, "--json", "-", "--quiet"])
    out, err = capsys.readouterr()
    if not out:
        return status, err.splitlines()[-1] if err else ""
    told = json.loads(out)
    return status, {key: value for key, value in told.items() if key not in OF_THE_RUN}


def questions(systems: dict[str, System], rng: Random) -> Iterator[tuple[str, ...]]:
    """`check` of one of the systems, with random options."""
    for _ in range(QUESTIONS):
        name, system = rng.choice([*systems.items()])
        options = [part for one in rng.sample(SWITCHES, rng.randrange(3)) for part in one]
        options += rng.choice([["--max-states", "1500"], ["--max-states", "40"]])
        if rng.random() < 0.3:
            sort = rng.choice([one for one in system.sorts if one.of is None])
            options += ["--size", f"{sort.__name__}={rng.randrange(1, 3)}"]
        if system.properties and rng.random() < 0.3:
            options += ["--property", rng.choice(system.properties).name]
        yield ("check", name, *options)


@pytest.mark.parametrize("seed", seeds((1, 4, 5)))
def test_a_kept_answer_of_check(
    seed: int, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told_apart(seed, EDITS, fresh, is_answer)
    systems = named(monkeypatch, found)
    every = [*questions(systems, Random(seed))]  # noqa: S311 - no secret
    right = [asked(capsys, *one, "--no-cache") for one in every]
    assert sum(isinstance(told, dict) for _, told in right) >= QUESTIONS // 2
    assert len({json.dumps(one) for one in right}) > 3, "the edits change nothing"
    for number in (*range(len(every)), *reversed(range(len(every)))):
        assert asked(capsys, *every[number]) == right[number], every[number]


@pytest.mark.parametrize("seed", seeds(()))
def test_a_kept_answer_of_prove(
    seed: int, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that ran out of time may be answered later; none may turn."""
    found = told_apart(seed, EDITS, unkept, decided)
    systems = named(monkeypatch, found)
    timeout = ("--timeout", "1")
    right = {name: asked(capsys, "prove", name, *timeout, "--no-cache") for name in systems}
    decisive = [name for name, (_, told) in right.items() if DECIDED & {*verdicts(told).values()}]
    assert len(decisive) > EDITS // 2
    for name in (*systems, *reversed(systems)):
        status, told = asked(capsys, "prove", name, *timeout)
        assert {status, right[name][0]} != {0, 1}, name
        kept, fresh = verdicts(told), verdicts(right[name][1])
        assert not any({kept[one], fresh[one]} == DECIDED for one in kept.keys() & fresh), name
        _, checked = asked(capsys, "check", name, "--max-states", "1500")
        if isinstance(checked, dict):
            assert {one["name"] for one in checked["properties"]
                    if "proved for every size" in one["assurance"]} <= {
                        one for one, verdict in kept.items() if verdict == "proved"}


def verdicts(told: dict[str, Any] | str) -> dict[str, str]:
    """Of the claims, by their names; none of a system that is refused."""
    return {} if isinstance(told, str) else told["verdicts"]
