"""The checker's answers against the oracle's, for one system: every difference in words."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import DUCKDB, PORTABLE
from pdproto.check.report.as_json import to_json
from pdproto.spec.language import Configuration, LeadsTo, SpecError, System
from tests.oracle import tlc
from tests.oracle.answers import Answer
from tests.oracle.witness import assumed, wrongs

VACUOUS = "vacuous: its premise never holds"


PLAIN = CheckSettings(keep_going=True)
TWO = replace(PLAIN, workers=2)


@dataclass(frozen=True)
class Way:
    """One way to ask the checker."""

    name: str
    settings: CheckSettings = PLAIN
    symmetry: bool = False
    dead_bits: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether each state is visited, so that counts are those of the system."""
        return not self.symmetry and not self.dead_bits

    @property
    def may_grow(self) -> bool:
        """Whether it may store several states for one (decision 092)."""
        return self.dead_bits


WAYS = (
    Way("native"),
    Way("native, two workers", TWO),
    Way("portable", replace(PLAIN, engine=PORTABLE)),
    Way("symmetry", symmetry=True),
    Way("dead bits", dead_bits=True),
    Way("symmetry, dead bits", symmetry=True, dead_bits=True),
    Way("duckdb", replace(PLAIN, engine=DUCKDB)),
    Way("portable, symmetry, dead bits", replace(PLAIN, engine=PORTABLE), True, True),
    Way("duckdb, symmetry, dead bits", replace(PLAIN, engine=DUCKDB), True, True),
)
SLOW = frozenset({"duckdb", "duckdb, symmetry, dead bits"})
TLC = Way(tlc.NAME)  # on the exported module; only if it is named, for it takes 10 s


def differences(
    system: System, configuration: Configuration, expected: Answer, way: Way
) -> Iterator[str]:
    """Every difference between the checker, asked in this way, and the oracle."""
    if way is TLC:
        yield from tlc.differences(system, configuration, expected)
        return
    asked = replace(configuration, symmetry=way.symmetry, dead_bits=way.dead_bits)
    try:
        told = to_json(check(system, asked, way.settings))
    except SpecError as refused:
        if "clauses, and a diagram" not in refused.problem:  # refused, and it says so
            yield f"{way.name}: {refused}"
        return
    except Exception as error:
        yield f"{way.name}: {type(error).__name__}: {error}"
        return
    for one in (*_counts(expected, told, way), *_verdicts(system, expected, told)):
        yield f"{way.name}: {one}"


def _counts(expected: Answer, told: Mapping[str, Any], way: Way) -> Iterator[str]:
    counts = {
        "states": expected.states, "transitions": expected.transitions, "depth": expected.depth,
        "deadlocks": expected.stuck}
    for name, count in counts.items():
        if way.is_plain and told[name] != count:
            yield f"{name}: {told[name]}, and not {count}"
    if way.symmetry and not way.dead_bits and not (
            expected.orbits <= told["states"] <= (
                expected.states if expected.worlds[0].given else expected.orbits)):
        yield f"states: {told['states']}, and not {expected.orbits} of {expected.states}"
    if (told["states"] > expected.states and not way.may_grow) or (
            bool(told["deadlocks"]) != bool(expected.stuck)):
        yield f"{told['states']} states, {told['deadlocks']} deadlocks; {expected.states}, " \
              f"{expected.stuck}"
    never = set(told["rows_never_fired"]) & expected.fired.keys()
    if never:
        yield f"{', '.join(sorted(never))} did never fire"
    fired = Counter({name: count for name, count in told["row_counts"].items() if count})
    if not fired.keys() <= expected.fired.keys() or (
            not fired <= expected.fired and not way.may_grow) or (
            way.is_plain and fired != expected.fired):
        yield f"rows fired: {fired}, and not {expected.fired}"


def _verdicts(system: System, expected: Answer, told: Mapping[str, Any]) -> Iterator[str]:
    live = {claim.name: claim for claim in system.properties if isinstance(claim, LeadsTo)}
    names = {one["name"] for one in told["properties"]}
    if names != {*expected.verdicts, *live}:
        yield f"properties: {sorted(names)}, and not {sorted((*expected.verdicts, *live))}"
        return
    for one in told["properties"]:
        name = one["name"]
        right = _live(expected, name, one) if name in live else _safe(expected, name, one)
        for wrong in (*right, *(f"run: {w}" for w in wrongs(expected, one))):
            yield f"{name}: {wrong}"


def _safe(expected: Answer, name: str, told: Mapping[str, Any]) -> Iterator[str]:
    verdict = expected.verdicts[name]
    if told["verdict"] != ("violated" if verdict.violated else "holds"):
        yield f"{told['verdict']}, and not {'violated' if verdict.violated else 'holds'}"
    if told["trace_length"] != verdict.length:
        yield f"after {told['trace_length']} steps, and not {verdict.length}"
    is_vacuous = verdict.vacuous and not verdict.violated
    if (VACUOUS in told["note"]) != is_vacuous:
        yield f"note {told['note']!r}, vacuous is {is_vacuous}"


def _live(expected: Answer, name: str, told: Mapping[str, Any]) -> Iterator[str]:
    broken = expected.broken[name]
    if told["verdict"] != ("violated" if broken else "holds"):
        yield f"{told['verdict']}, and broken under {sorted(broken)}"
    elif broken and not assumed(told) <= broken:
        yield f"broken {told['fairness']}, and not {sorted(broken)}"
    is_vacuous = not expected.pending[name]
    if not broken and is_vacuous != (told["note"].count(VACUOUS) > 0) and is_vacuous:
        yield f"note {told['note']!r}, vacuous is {is_vacuous}"
