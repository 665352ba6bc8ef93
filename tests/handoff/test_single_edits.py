"""A property notices each edit of a row: a new sample of single edits each night.

An edit of a guard drops a clause, or a part of one (`pdproto mutate --change "drop conjunct"`). One
of an effect drops or changes an update or a message, or the state that the row leads to. It is
tried at small sizes first. What nothing notices there is tried at all of them, and what nothing
notices then must be of a row that docs/mutation.md names, with the reason, under *Those that are
left*. Pairs of edits are in test_pairs_of_edits.py.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from pdproto.check.mutate.edits import EditKind, Mutant
from pdproto.check.mutate.own_rows import own_mutants
from pdproto.check.mutate.processes import Load, Names, chosen, known_trials
from pdproto.check.mutate.trials import Trials, searches
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.report.mutants import LEFT
from pdproto.cli.systems import as_written, expected, handover, parts_of
from tests import tonight

PAGE: Final = Path(__file__).parents[2] / "docs" / "mutation.md"
OF_GUARDS: Final = (EditKind.DROP_CONJUNCT, EditKind.INSIDE)
OF_EFFECTS: Final = (EditKind.TARGET, EditKind.DROP_UPDATE, EditKind.DROP_SEND,
                     EditKind.RECEIVERS, EditKind.CELLS)
KINDS: Final = {"guards": OF_GUARDS, "effects": OF_EFFECTS}
EACH_NIGHT: Final = 12  # edits of each kind, of each group of systems that share tables
BY_DAY: Final = 4  # of each of some groups
SMALLEST: Final = ("drain", "incarnations", "decode-load", "prefill-offer")
# The recorded states of the searches, for claims about states and about runs. A search of an edit
# ends at ten times as many.
SMALL: Final = (20_000, 5_000)
ALL: Final = (500_000, 50_000)


def trials(names: Names, load: Load, most: tuple[int, int]) -> Trials:
    """With the searches of at most so many states, and the smallest one of each system."""
    measured = []
    for name in names:
        found = [replace(one, states=expected()[name, one.configuration].states)
                 for one in searches(load(name).system)]
        small = [one for one in found if one.states <= most[one.endless]]
        measured += small or [min(found, key=lambda one: (one.endless, one.states))]
    return known_trials(load, names, tuple(measured), None)


def left(names: Names, edits: Sequence[Mutant], load: Load = as_written) -> Iterator[Mutant]:
    """Those of these edits that nothing notices, or of which a search reached its limit."""
    small, every = (trials(names, load, most) for most in (SMALL, ALL))
    for edit in edits:
        if all(one.judged(edit).outcome in LEFT for one in (small, every)):
            yield edit


def edits_of(names: Names, kinds: Sequence[EditKind]) -> Sequence[Mutant]:
    """The edits of these kinds that `pdproto mutate` tries in these systems."""
    systems = [as_written(name).system for name in names]
    every = trials(names, as_written, SMALL).mutants
    return [one for one in own_mutants(every, systems, parts_of(names))
            if one.change in kinds]


def named(names: Names) -> set[str]:
    """The rows of these systems with an edit that the page names as left."""
    table = PAGE.read_text("utf-8").partition("### Those that are left")[2].partition("\n#")[0]
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row for rows, systems, _ in lines if {*re.findall("`([a-z-]+)`", systems)} & {*names}
            for row in re.findall("`([a-z_]+)`", rows)}


def unnamed(names: Names, edits: Sequence[Mutant], load: Load = as_written) -> list[str]:
    """Those that nothing notices, and that are of no row that the page names."""
    return [str(one) for one in left(names, edits, load) if one.row.name not in named(names)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("names", "seed", "count"), [
    *(pytest.param(names, tonight.seeds(0, 1)[0], EACH_NIGHT, marks=pytest.mark.nightly)
      for names in handover()),
    *((names, 0, BY_DAY) for names in handover() if names[0] in SMALLEST),
], ids=lambda value: value[0] if isinstance(value, tuple) else str(value))
def test_a_property_notices_each_edit(names: Names, seed: int, count: int, kind: str) -> None:
    edits = edits_of(names, KINDS[kind])
    [numbers] = chosen([edits], count, seed)
    assert unnamed(names, [one for one in edits if one.number in numbers]) == []


def test_an_edit_that_nothing_notices_is_told() -> None:
    """A request that has not landed succeeds, and the property that forbids it is left out, and
    the lemmas.
    """
    def load(name: str) -> ProofSubject:
        one = as_written(name)
        kept = tuple(claim for claim in one.system.properties
                     if claim.name != "rule_3_a_success_has_landed")
        return replace(one, system=replace(one.system, properties=kept), lemmas=())

    names = ("decode-load",)
    edits = edits_of(names, OF_GUARDS)
    told = [str(one) for one in edits
            if (one.row.name, one.words) == ("succeed", "drop `handoff(h) = landed`")]
    assert unnamed(names, edits) == []
    assert unnamed(names, edits, load) == told != []


@pytest.mark.parametrize("names", handover(), ids=lambda names: names[0])
def test_the_page_names_rows_of_the_tables(names: Names) -> None:
    systems = [as_written(name).system for name in names]
    assert named(names) <= {row.name for one in systems for table in one.tables
                            for row in table.rows}
