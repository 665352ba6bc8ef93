"""Two edits of the tables do not hide each other: what notices one of them notices both.

A pair is of two rows, and each edit drops or weakens a clause of a guard (`pdproto mutate`). One
sample is drawn by a seed that is the same each night, and a smaller one by a seed of tonight.
"""

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Final

import pytest

from pdproto.check.explore import GIB, SearchLimits
from pdproto.check.lint import Severity, small, subjects
from pdproto.check.mutate.edits import EditKind, Mutant, mutants
from pdproto.check.mutate.kills import Kill, UndecidedError, liveness, safety
from pdproto.check.mutate.trials import ALL_RULES
from pdproto.cli.systems import load
from pdproto.spec.language import SpecError, System
from tests import tonight

# A mutant may have ten times as many states as the largest configuration of these systems.
SYSTEMS: Final = (
    "incarnations", "drain", "group-transfer", "sink-group", "agreement-no-timers",
    "transfer-no-timers", "end-to-end-contended", "optimistic-one-sided",
)
LIMITS: Final = SearchLimits(200_000, 2 * GIB)
PAIRS: Final = 40  # of each system
PAIRS_OF_THE_NIGHT: Final = 10
OF_GUARDS: Final = (EditKind.DROP_CONJUNCT, EditKind.INSIDE)


def told(edit: Mutant) -> str:
    """The edit, without its place in the source code."""
    return f"{edit.row.name}: {edit.words}"


def noticed(system: System) -> bool:
    """Whether a property fails. Raises UndecidedError, and SpecError for a malformed system."""
    chosen = [sizes for name, sizes in system.configurations.items() if name != "deep"]
    return any(isinstance(ask(system, sizes, LIMITS), Kill)
               for sizes in chosen for ask in (safety, liveness))


def errors(system: System) -> set[str]:
    """What lint finds wrong in the system."""
    found, _ = subjects(system, small(system))
    return {remark.message for subject in found for rule in ALL_RULES for remark in rule(subject)
            if remark.severity is Severity.ERROR}


def hidden(system: System, one: Mutant, other: Mutant) -> bool:
    """Whether no property fails with both edits, and one fails with one of them alone.

    A pair of which lint finds an error, as it does of two rows that answer one call, is noticed.
    """
    first, second = one.of(system), other.of(system)
    assert first is not None
    assert second is not None
    try:
        both = other.of(first)
        assert both is not None
        return not noticed(both) and not errors(both) - errors(system) and (
            noticed(first) or noticed(second))
    except (SpecError, UndecidedError):  # a refused edit is noticed
        return False


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "count"), [
    (0, PAIRS), (tonight.seeds(0, 1)[0], PAIRS_OF_THE_NIGHT)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_second_edit_hides_none(name: str, seed: int, count: int) -> None:
    assert hidden_pairs(name, seed, count) == set(), f"seed {seed}"


def hidden_pairs(name: str, seed: int, count: int) -> set[tuple[str, str]]:
    """Those of a sample of so many pairs of the system."""
    system = replace(load(name))
    edits = [one for one in mutants([system]) if one.change in OF_GUARDS]
    pairs = [pair for pair in combinations(edits, 2) if pair[0].row.name != pair[1].row.name]
    sample = Random(seed).sample(pairs, count)  # noqa: S311 - no secret
    return {(told(one), told(other)) for one, other in sample if hidden(system, one, other)}
