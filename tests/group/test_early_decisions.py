"""Decisions that come before their turn are kept up to a limit, and later ones come again."""

from collections.abc import Callable
from typing import Any

import pytest

from pdproto.group import pass_rank
from pdproto.group import rank as rank_module
from pdproto.group.pass_rank import PassRank
from pdproto.group.passes import TABLES
from pdproto.group.rank import Decision, RankPart
from pdproto.node.metrics import Metrics
from pdproto.node.timers import Waits
from pdproto.runtime.wire import Fail, Life, PassDecision

MOST = 3


def of_requests() -> tuple[list[Decision], Callable[[int], None]]:
    """A rank that applies the decisions about requests."""
    rank = RankPart(1, [0, 1], say=lambda _: None, stop=lambda _: True,
                    waits=Waits(None), metrics=Metrics({}))
    decisions: Any = rank.decisions
    return decisions, lambda number: rank.decide(
        Fail(Life(number, 1, number), number, "no KV"), 0.0)


def of_passes() -> tuple[list[Decision], Callable[[int], None]]:
    """A rank that applies the decisions about passes."""
    decisions: list[Decision] = []
    rank = PassRank(1, [0, 1], 1, say=lambda _: None, order=decisions.append,
                    over=lambda *_: None, metrics=Metrics({}), table=TABLES["rank"])
    return decisions, lambda number: rank.decide(
        PassDecision(Life(number, 1, number), "run", number))


@pytest.mark.parametrize("kind", [of_requests, of_passes])
def test_decisions_past_the_limit_are_dropped_and_applied_when_repeated(
    kind: Callable[[], tuple[list[Decision], Callable[[int], None]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (rank_module, pass_rank):
        monkeypatch.setattr(module, "EARLY_DECISIONS_MAX", MOST)
    applied, decide = kind()
    for number in (*range(1, MOST + 1), MOST + 1):
        decide(number)
    assert not applied
    decide(0)
    assert [one.number for one in applied] == [*range(MOST + 1)]
    decide(MOST + 1)
    assert [one.number for one in applied] == [*range(MOST + 2)]
