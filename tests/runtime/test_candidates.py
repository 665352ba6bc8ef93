"""The rows that an event can have enabled, held to the guards of machines at random steps."""

import random
from collections.abc import Iterator

import pytest

from pdproto.runtime.candidates import rows_after, rows_by_value
from pdproto.runtime.errors import ProtocolError
from pdproto.runtime.store import AnyMessage, Shared
from pdproto.spec.handoff import group
from pdproto.spec.handoff.group import ENTRY, RANK, Stage, Status
from pdproto.spec.language.machine import Row
from tests.runtime.shared_machines import chance

RANKS = (0, 1)
LIFE, SLOT = "life", 0
VOTES = (group.ready, group.dead, group.done, group.broke, group.closed)
DECISIONS = tuple(map(ENTRY.row, ("decide_fail", "decide_admit", "decide_release", "decide_drop")))
TIMED = tuple(row for row in RANK.rows if row.choose)
STEPS = 4_000


def names(rows: tuple[Row, ...]) -> list[str]:
    return [row.name for row in rows]


def open_decisions(entry: Shared, number: int) -> set[str]:
    """The decisions that the entry can make about the life, with any rank and slot."""
    return {row.name for row in DECISIONS if entry.found(row.name, h=LIFE, n=number, **(
        {"m": SLOT} if row.name != "decide_fail" else {}))}


def entry_steps(draws: random.Random) -> Iterator[tuple[set[str], set[str], AnyMessage, Status]]:
    """Votes at an entry: the decisions that are possible before and after one, the vote, and the
    status of the request. A decision that is possible may be made in between.
    """
    entry, number = Shared(ENTRY, bounded={group.Rank: RANKS}), 0
    entry.call("submit", LIFE)
    for _ in range(12):
        before, vote = open_decisions(entry, number), draws.choice(VOTES)
        entry.receive(vote, draws.choice(RANKS), LIFE)
        status = entry.value(group.status, LIFE)
        assert isinstance(status, Status)
        after = open_decisions(entry, number)
        yield before, after, vote, status
        if after and draws.random() < 0.7:
            made = draws.choice(sorted(after))
            entry.fire(made, h=LIFE, n=number, **({"m": SLOT} if made != "decide_fail" else {}))
            number += 1


def test_a_vote_enables_only_the_decisions_that_are_named_for_it() -> None:
    draws, seen = chance("votes"), set()
    by_status = rows_by_value(ENTRY, DECISIONS, group.status(group.h))
    by_vote = {vote: names(rows_after(ENTRY, DECISIONS, vote)) for vote in VOTES}
    for _ in range(STEPS // 12):
        for before, after, vote, status in entry_steps(draws):
            assert after - before <= set(by_vote[vote]), (vote, status)
            assert after <= set(names(by_status[status])), (vote, status)
            seen |= after - before
    assert seen == set(names(DECISIONS))


def test_few_decisions_are_named_for_a_vote() -> None:
    named = {vote: names(rows_after(ENTRY, DECISIONS, vote)) for vote in VOTES}
    assert named == {
        group.ready: ["decide_admit"], group.dead: ["decide_fail"],
        group.done: ["decide_release", "decide_drop"], group.broke: ["decide_drop"],
        group.closed: [],
    }


def test_only_the_rows_of_a_stage_are_enabled_there() -> None:
    """The rank takes random calls and decisions about one life, in the order of their numbers."""
    draws, seen = chance("stages"), set()
    by_stage = rows_by_value(RANK, TIMED, group.stage(group.r, group.h))
    for _ in range(STEPS // 10):
        machine, number = Shared(RANK, (1,), {group.Rank: RANKS}), 0
        machine.receive(group.request, 1, LIFE)
        for _ in range(10):
            stage = machine.value(group.stage, 1, LIFE)
            enabled = {row.name for row in TIMED if machine.enabled(row.name, h=LIFE)}
            assert enabled <= set(names(by_stage[stage])), stage
            seen |= enabled
            try:
                if draws.random() < 0.5:
                    machine.call(draws.choice(("prepared", "bootstrapped", "failed",
                                               "transferred", "transfer_failed")), LIFE)
                else:
                    kind = draws.choice((group.admit, group.fail, group.release, group.drop))
                    slot = (SLOT,) if kind is group.admit else ()
                    machine.receive(kind, 1, number, LIFE, *slot)
                    number += bool(machine.value(group.applied, 1, number))
            except ProtocolError:
                continue
    assert seen == set(names(TIMED))


@pytest.mark.parametrize(("stage", "rows"), [
    (Stage.ABSENT, []), (Stage.QUEUED, ["give_up"]), (Stage.READY, ["vote_ready_again"]),
    (Stage.RUNNING, ["cut_off"]), (Stage.CLOSED, []),
])
def test_one_row_on_a_timer_is_named_for_a_stage(stage: Stage, rows: list[str]) -> None:
    by_stage = rows_by_value(RANK, TIMED, group.stage(group.r, group.h))
    assert names(by_stage[stage]) == rows
