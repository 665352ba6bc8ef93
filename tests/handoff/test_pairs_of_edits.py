"""Two edits of the tables do not hide each other: what notices one of them notices both.

A pair is of two rows, and each edit drops or weakens a clause of a guard (`pdproto mutate`). A
sample is drawn by a seed, the same each night.
"""

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Final

import pytest

from pdproto.check.explore import GIB, SearchLimits
from pdproto.check.mutate.edits import EditKind, Mutant, mutants
from pdproto.check.mutate.kills import Kill, UndecidedError, liveness, safety
from pdproto.cli.systems import load
from pdproto.spec.language import SpecError, System

# A mutant may have ten times as many states as the largest configuration of these systems.
SYSTEMS: Final = (
    "incarnations", "drain", "group-transfer", "sink-group", "agreement-no-timers",
    "transfer-no-timers", "end-to-end-contended", "optimistic-one-sided",
)
LIMITS: Final = SearchLimits(200_000, 2 * GIB)
PAIRS: Final = 40  # of each system
OF_GUARDS: Final = (EditKind.DROP_CONJUNCT, EditKind.INSIDE)

# Pairs that no property notices, although it notices one of the two, each with the reason.
HIDDEN: Final = {
    ("incarnations", "place_and_ask: at any state", "meet_early: at any state"):
        "a second call, when the last source has been met, asks for the memory; lint refuses the "
        "first edit alone, because two rows answer the call",
}


def told(edit: Mutant) -> str:
    """The edit, without its place in the source code."""
    return f"{edit.row.name}: {edit.words}"


def noticed(system: System) -> bool:
    """Whether a property fails. Raises UndecidedError, and SpecError for a malformed system."""
    chosen = [sizes for name, sizes in system.configurations.items() if name != "deep"]
    return any(isinstance(ask(system, sizes, LIMITS), Kill)
               for sizes in chosen for ask in (safety, liveness))


def hidden(system: System, one: Mutant, other: Mutant) -> bool:
    """Whether no property fails with both edits, and one fails with one of them alone."""
    first, second = one.of(system), other.of(system)
    assert first is not None
    assert second is not None
    try:
        both = other.of(first)
        assert both is not None
        return not noticed(both) and (noticed(first) or noticed(second))
    except (SpecError, UndecidedError):  # a refused edit is noticed
        return False


@pytest.mark.nightly
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_second_edit_hides_none(name: str) -> None:
    system = replace(load(name))
    edits = [one for one in mutants([system]) if one.change in OF_GUARDS]
    pairs = [pair for pair in combinations(edits, 2) if pair[0].row.name != pair[1].row.name]
    sample = Random(0).sample(pairs, PAIRS)  # noqa: S311 - no secret
    found = {(name, told(one), told(other)) for one, other in sample if hidden(system, one, other)}
    assert found == {pair for pair in HIDDEN if pair[0] == name}
