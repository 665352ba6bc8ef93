"""Asks again, without reductions, what is explored with both: `python -m lab.reductions`.

Of each named size and each defect whose search uses symmetry and dead bits, the same question is
asked with neither. The record, lab/reductions.jsonl, has a line for each: the counts of both
searches, and how their verdicts and shortest lengths differ; and, if the plain search met a limit,
what it left undecided, often liveness alone. Or it says why the question was not asked. The
smallest come first. A run that finds a record asks what has no answer there, or an answer about
other tables.
"""

import argparse
import json
import re
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from pdproto.check.checking import CheckSettings, check
from pdproto.check.counts import counts
from pdproto.check.explore import SearchLimits
from pdproto.check.result import CheckResult, PropertyKind, Verdict
from pdproto.cli.systems import BUILT_IN, expected, load
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.language import Configuration, System

RECORD: Final = Path(__file__).parent / "reductions.jsonl"
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Question:
    """A search with both reductions. violates: of a defect, the property that it breaks."""

    name: str
    system: System
    configuration: Configuration
    violates: str = ""


def every_question() -> dict[str, Question]:
    """By name, the searches that use both reductions."""
    systems = (Question(f"{name} {size}", system, configuration)
               for name in BUILT_IN for system in [load(name)]
               for size, configuration in system.configurations.items())
    defects = (Question(f"defect {bug.id} in {bug.system.name}", bug.system, bug.configuration,
                        bug.violates) for bug in BUGS)
    return {one.name: one for one in (*systems, *defects)
            if one.configuration.symmetry and one.configuration.dead_bits}


def answer(name: str, gib: float, seconds: int) -> dict[str, Any]:
    """The line of the record for the question of this name."""
    asked = every_question()[name]
    settings = CheckSettings((asked.violates,) if asked.violates else (),
                             SearchLimits(bytes_max=int(gib * GIB)), keep_going=not asked.violates)
    reduced = check(asked.system, asked.configuration, settings)
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(seconds)
    plain = check(asked.system, replace(asked.configuration, symmetry=False, dead_bits=False),
                  settings)
    signal.alarm(0)
    line: dict[str, Any] = {"name": name, "reduced": [*counts(reduced)], "plain": [*counts(plain)]}
    undecided = [one.name for one in plain.findings if one.verdict is Verdict.UNKNOWN]
    if undecided:
        line |= {"stopped": plain.stopped, "within": f"{gib:g} GiB, {seconds} s",
                 "decided": len(plain.findings) - len(undecided), "undecided": undecided}
    return {**line, "differences": list(differences(reduced, plain))}


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def differences(reduced: CheckResult, plain: CheckResult) -> Iterator[str]:
    """Where the verdicts or the lengths of the two searches differ, if both are known."""
    for one, other in zip(reduced.findings, plain.findings, strict=True):
        if other.verdict is Verdict.UNKNOWN:
            continue
        if one.verdict is not other.verdict:
            yield f"{one.name}: {one.verdict}, and {other.verdict} without reductions"
        # No search looks for a shortest loop.
        elif one.kind is not PropertyKind.LEADS_TO and one.trace_length != other.trace_length:
            yield f"{one.name}: {one.trace_length} steps, and {other.trace_length} without"


def record(path: Path = RECORD) -> dict[str, Mapping[str, Any]]:
    """The lines of a record, by the names of their questions."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def is_current(name: str, line: Mapping[str, Any]) -> bool:
    """Whether a line is of today's tables, as their recorded counts tell it."""
    system, _, size = name.partition(" ")
    today = expected().get((system, size))
    of_states = re.match(r"([\d,]+) states with both", line.get("not asked", ""))
    if today is None:
        return True
    if of_states is not None:
        return int(of_states[1].replace(",", "")) == today[0]
    return tuple(line.get("reduced", today)) == today


def main() -> None:
    """Ask what the record lacks."""
    parser = argparse.ArgumentParser(prog="python -m lab.reductions", description=__doc__)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--gib", type=float, default=5, help="the limit of the states of a search")
    parser.add_argument("--seconds", type=int, default=600, help="the limit of a plain search")
    parser.add_argument("--again", action="store_true", help="also what met a limit")
    given = parser.parse_args()
    known = record(given.record)
    questions = every_question()
    known = {name: line for name, line in known.items()
             if name in questions and is_current(name, line)
             and ("stopped" not in line or not given.again)}
    for name in sorted(questions, key=_states):
        if "plain" not in known.get(name, {}):
            with ProcessPoolExecutor(1, get_context("spawn")) as alone:
                known[name] = alone.submit(answer, name, given.gib, given.seconds).result()
            lines = (json.dumps(line) + "\n" for line in known.values())
            given.record.write_text("".join(lines), encoding="utf-8")


def _states(name: str) -> int:
    """The recorded states of a named size; of a defect 0, for its search is short."""
    system, _, size = name.partition(" ")
    return expected().get((system, size), (0,))[0]


if __name__ == "__main__":
    main()
