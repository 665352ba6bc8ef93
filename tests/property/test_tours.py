"""Tours: every transition of the explored graph is taken at the live ends, and compared.

The counts are those of the explorer (tests/handoff pins some of them once more).
"""

from typing import Final

import pytest

from pdproto.check.explore import explore
from pdproto.ground.grounding import Ground
from pdproto.spec.handoff import agreement, transfer
from pdproto.spec.handoff.ends import Sending, can_fence, d, feeds, h, introduce, known, p
from pdproto.spec.handoff.group import Decision, Rank
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.language import DropEffect, Ignore, ReplaceRow, System, edited
from pdproto.testing.cluster import Cluster
from pdproto.testing.property_checker import ViolationError
from pdproto.testing.tour import tour

TOPOLOGY: Final = {feeds: frozenset({(0, 0)}), can_fence: frozenset({(0,)})}
ONE: Final = transfer._sizes()
# With answers to introductions that come again, two lives have 542,912 states: minutes of tour.
SILENT: Final = edited(transfer.NO_TIMEOUTS, "silent", ReplaceRow("answer_meeting", Ignore(
    introduce(d, h, p), at=Sending.BOOTSTRAPPING, when=known(p, h, d),
    why="the tour of one life hears the answers")))
GROUP: Final = {Rank: 2, Life: 1, Slot: 1, Decision: 2}
STORES: Final = frozenset({"entry"})  # as a server runs it


def transferring(system: System, *faults: str, lives: int = 1) -> Ground:
    return Ground(system, transfer._sizes(lives=lives), faults, TOPOLOGY)


@pytest.mark.parametrize(("ground", "states", "edges"), [
    pytest.param(transferring(transfer.SYSTEM, "crash", "sink-crash", "restart"), 14_289, 55_339,
                 id="transfer, whoever dies", marks=pytest.mark.nightly),
    # Aborts from both sides, errors and repeats, while two lives want one chunk.
    pytest.param(transferring(SILENT, lives=2), 70_400, 360_580,
                 id="transfer, aborts, two lives", marks=pytest.mark.nightly),
    pytest.param(Ground(agreement.SYSTEM, GROUP, ("crash",)), 3_648, 8_971,
                 id="agreement, two ranks that may die"),
    pytest.param(Ground(agreement.SYSTEM, {**GROUP, Rank: 3}, ()), 4_664, 16_955,
                 id="agreement, three ranks"),
])
def test_every_transition_is_taken(ground: Ground, states: int, edges: int) -> None:
    taken = tour(Cluster(ground, stores=STORES, heard_at_once=True))
    assert (taken.states, taken.edges) == (states, edges)
    assert taken.steps >= edges
    assert taken.idle > 0


def test_a_tour_takes_every_transition_of_the_explorer() -> None:
    """All that can fire in some state is an edge, or is among what changes nothing."""
    ground = transferring(transfer.SYSTEM)
    found = explore(ground)
    taken = tour(Cluster(ground, heard_at_once=True))
    loops = int(found.engine.fired.sum()) - len(found.engine.edges().targets)
    assert taken.edges == len(found.engine.edges().targets)
    assert 0 < taken.idle < loops, "what one end cannot tell apart is fired once"


@pytest.mark.parametrize("row", ["say_drained_again", "refuse_meeting", "note_landed"])
def test_a_row_that_says_or_does_something_else_is_found(row: str) -> None:
    """Also one that most walks by chance never come to."""
    found = transfer.SYSTEM.row(row)
    assert found is not None
    effect = (*found[1].do, *found[1].send)[0]
    other = edited(transfer.SYSTEM, "other", DropEffect(row, effect))
    runs = Ground(other, ONE, (), TOPOLOGY)
    with pytest.raises(ViolationError) as raised:
        tour(Cluster(transferring(transfer.SYSTEM), runs=runs, heard_at_once=True))
    assert row in raised.value.finding.note or "claim" in raised.value.finding.note
