"""The rooms of a run that is over are not answered, whatever has ended it."""

from collections.abc import Callable
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.registry.registry import Registry
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import FullAnswer, Registration, Room, Rooms, Run
from pdproto.runtime.versions import VERSION
from pdproto.spec.handoff import dp_rank
from pdproto.spec.handoff.routing import Entry, entry, h, x
from pdproto.spec.language import DropEffect, DropProperty, DropRow, edited

ROOM: Final = 7
GENERATION: Final = 5
SILENT_S: Final = 10.0
CLEANED_UP: Final = "L3_entries_are_cleaned_up"
ONLY_OF_ENDED_RUNS: Final = "only_a_room_of_an_ended_run_is_struck_out_with_it"
NOTHING: Final = FullAnswer({}, ())


def register(registry: Registry, group: int, run: int, now: float = 0.0) -> None:
    """A run of one of two data-parallel ranks. Every room is published."""
    registry.register(Registration(
        attn_tp_size=1, attn_tp_rank=0, attn_dp_size=2, attn_dp_rank=group, incarnation=run,
        rank_ip="10.0.0.1", rank_port=5000 + group, version=VERSION, force_query=True), now)


def leave(registry: Registry) -> None:
    registry.deregister(Run(0, 0, 0, 0, incarnation=1))


def fall_silent(registry: Registry) -> None:
    register(registry, 1, 1, now=SILENT_S)
    registry.tick(SILENT_S + 1.0)


def restart(registry: Registry) -> None:
    register(registry, 0, 2, now=1.0)


End = Callable[[Registry], None]
each_end = pytest.mark.parametrize("end", [leave, fall_silent, restart])


def listed(generation: int | None = None) -> Registry:
    """A registry that has answered a question about a room: it is on rank 0."""
    registry = Registry(Limits(silent_s=SILENT_S))
    for group in range(2):
        register(registry, group, 1)
    registry.rooms.publish(Room(ROOM, 0, generation), 0.0)
    assert ask(registry, generation) == FullAnswer({ROOM: 0}, ())
    return registry


def ask(registry: Registry, generation: int | None = None) -> FullAnswer:
    generations = () if generation is None else (generation,)
    return registry.rooms.query(Rooms((ROOM,), generations), 1.0)


@each_end
def test_a_room_number_may_come_again_after_the_run(end: End) -> None:
    """A question without a generation may be about a retry, so no answer ends it."""
    registry = listed()
    end(registry)
    assert ask(registry) == NOTHING
    registry.rooms.publish(Room(ROOM, 1), 2.0)
    assert ask(registry) == FullAnswer({ROOM: 1}, ())


@each_end
def test_a_life_is_gone_with_the_run(end: End) -> None:
    registry = listed(GENERATION)
    end(registry)
    assert ask(registry, GENERATION) == FullAnswer({}, (ROOM,))


@each_end
def test_rooms_of_the_other_ranks_stay(end: End) -> None:
    registry = listed()
    registry.rooms.publish(Room(9, 1), 0.0)
    end(registry)
    assert registry.rooms.query(Rooms((9,)), 1.0) == FullAnswer({9: 1}, ())


def test_rooms_of_an_ended_run_are_forgotten() -> None:
    registry = listed()
    before = len(registry.rooms)
    leave(registry)
    assert len(registry.rooms) == before == 1
    registry.tick(1e6)
    assert len(registry.rooms) == 0
    assert not registry.rooms._counted
    assert not registry.rooms._answers


@each_end
def test_with_the_defect_in_the_table_the_room_stays_listed(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry keeps the room, and decode goes to a run that does not have it."""
    defect = edited(dp_rank.SYSTEM, "stale-rooms",
                    DropEffect("strike_room_of_run", entry(h, x).to(Entry.OVER)))
    table = next(one for one in defect.tables if one.machine is dp_rank.REGISTRY.machine)
    monkeypatch.setattr(dp_rank, "REGISTRY", table)
    registry = listed()
    end(registry)
    assert ask(registry) == FullAnswer({ROOM: 0}, ())
    with pytest.raises(AssertionError):
        test_a_room_number_may_come_again_after_the_run(end)


def test_the_explorer_refutes_the_defect() -> None:
    defect = edited(dp_rank.SYSTEM, "stale-rooms", DropProperty(ONLY_OF_ENDED_RUNS),
                    DropRow("strike_room_of_run"))
    found = check(defect, dp_rank.SYSTEM.configurations["crash"],
                  CheckSettings(properties=(CLEANED_UP,)))
    assert found.findings[0].verdict is Verdict.VIOLATED
