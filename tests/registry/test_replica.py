"""Registries that share a store which is late, forgets its beginning, and says things twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pdproto.registry import changes, kept, replica
from pdproto.registry.changes import (
    Change,
    Deregister,
    EndLives,
    KeepAlive,
    Publish,
    Query,
    Register,
    Retire,
    StrikeOut,
    Withdraw,
)
from pdproto.registry.log import Item, LogEntry, Start, Trimmed
from pdproto.registry.registry import Registry
from pdproto.registry.replica import Replica
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import Rank, RefusedError, Room, Rooms, Run, Silent
from pdproto.runtime.limits import (
    CHANGE_BYTES_MAX,
    STORE_WRITERS_MAX,
    WAITING_CHANGES_BYTES_MAX,
)
from pdproto.spec.handoff.timers import WAITS
from tests.registry.memory_log import MemoryLog, MemoryStore
from tests.registry.served import group
from tests.waiting import PATIENCE_S, until_in_loop

SILENT_S = WAITS["store_silent"].seconds
LEASE_S = WAITS["no_sign_of_life"].seconds


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "BEAT_S", 0.005)


@asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one.run()) for one in replicas]
    try:
        async with asyncio.timeout(PATIENCE_S):
            for one in replicas:
                await until_in_loop(partial(is_current, one))
            yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_current(one: Replica) -> bool:
    try:
        one.require_current()
    except RefusedError:
        return False
    return True


def shared(count: int, clock: Clock, **options: Any) -> tuple[MemoryStore, list[MemoryLog],
                                                              list[Registry], list[Replica]]:
    store = MemoryStore()
    logs = [MemoryLog(store) for _ in range(count)]
    registries = [Registry() for _ in range(count)]
    return store, logs, registries, [
        Replica(registry, log, clock, **options)
        for registry, log in zip(registries, logs, strict=True)]


def test_a_rank_that_registers_at_one_registry_is_found_at_the_other() -> None:
    async def scene() -> None:
        _, _, registries, (first, second) = shared(2, Clock())
        async with running(first, second):
            await first.order(Register(group(0)))
            await second.order(Register(group(1)))
            await until_in_loop(lambda: all(one.ready for one in registries))
            addresses = [one.look_up(Rank(1, 0, 0, 0)) for one in registries]
            assert addresses[0] == addresses[1]

    asyncio.run(scene())


def test_of_two_runs_that_register_at_once_one_is_listed_at_both() -> None:
    """The store orders: the later number is listed, or the earlier one is refused at both."""
    async def scene() -> None:
        _, _, registries, (first, second) = shared(2, Clock())
        async with running(first, second):
            await asyncio.gather(
                first.order(Register(group(0, of=1, run=1, rank_port=1))),
                second.order(Register(group(0, of=1, run=2, rank_port=2))),
                return_exceptions=True)
            await until_in_loop(lambda: registries[0].changes == registries[1].changes)
            found = {one.look_up(Rank(0, 0, 0, 0)).incarnation for one in registries}
            assert found == {2}

    asyncio.run(scene())


def test_a_store_that_is_late_leaves_changes_unanswered_and_look_ups_refused() -> None:
    """A registry never answers with a run whose lease is over, however late its store is."""
    async def scene() -> None:
        clock = Clock()
        _, logs, registries, (first, late) = shared(2, clock, order_s=0.05)
        async with running(first, late):
            await first.order(Register(group(0, of=1)))
            await until_in_loop(lambda: registries[1].ready)
            logs[1].shows = False
            with pytest.raises(RefusedError, match=r"has not ordered it within 0\.05 s") as refused:
                await late.order(KeepAlive(Run(0, 0, 0, 0, 1)))
            assert refused.value.status == 504
            await first.order(Deregister(Run(0, 0, 0, 0, 1)))
            assert not registries[0].ready
            assert is_current(late), "its copy is not too late yet"
            clock.now += SILENT_S + 0.1
            assert SILENT_S < LEASE_S, "it stops to answer before the lease is over"
            with pytest.raises(RefusedError, match="has shown nothing for") as refused:
                late.require_current()
            assert refused.value.status == 504
            logs[1].shows = True
            logs[1].store.show()
            await until_in_loop(lambda: is_current(late))
            assert not registries[1].ready

    asyncio.run(scene())


def test_a_beat_that_took_too_long_does_not_make_a_copy_current() -> None:
    async def scene() -> None:
        clock = Clock()
        _, logs, _, (late,) = shared(1, clock)
        async with running(late):
            logs[0].shows = logs[0].takes = False
            await asyncio.sleep(0.05)
            clock.now += SILENT_S + 0.1
            assert not is_current(late)
            logs[0].shows = True
            logs[0].store.show()  # the beats that were sent long ago
            await asyncio.sleep(0.05)
            assert not is_current(late)
            logs[0].takes = True
            logs[0].store.show()
            await until_in_loop(lambda: is_current(late))

    asyncio.run(scene())


def test_silence_of_the_store_is_not_silence_of_the_ranks() -> None:
    """A registry that could hear nobody strikes out nobody."""
    async def scene() -> None:
        clock = Clock()
        _, logs, registries, (only,) = shared(1, clock)
        async with running(only):
            await only.order(Register(group(0, of=1)))
            logs[0].takes = False
            await asyncio.sleep(0.05)
            clock.now += LEASE_S + 1.0
            only.tick()
            logs[0].takes = True
            logs[0].store.show()
            await until_in_loop(lambda: is_current(only))
            only.tick()
            await only.order(KeepAlive(Run(0, 0, 0, 0, 1)))
            assert registries[0].ready
            for _ in range(5):
                clock.now += SILENT_S / 2
                await asyncio.sleep(0.05)
            await until_in_loop(lambda: is_current(only))
            only.tick()
            await until_in_loop(lambda: not registries[0].ready)

    asyncio.run(scene())


def test_a_sign_of_life_before_the_strike_out_saves_the_run() -> None:
    registry = Registry()
    changes.apply(registry, Register(group(0, of=1)), 0.0)
    noticed = changes.due(registry, LEASE_S + 1.0)
    assert noticed == [StrikeOut(Silent(Rank(0, 0, 0, 0), 1, 1))]
    changes.apply(registry, KeepAlive(Run(0, 0, 0, 0, 1)), LEASE_S + 1.0)
    changes.apply(registry, noticed[0], LEASE_S + 1.0)
    assert registry.ready
    changes.apply(registry, changes.due(registry, 3 * LEASE_S)[0], 3 * LEASE_S)
    assert not registry.ready


def test_an_entry_that_stands_twice_is_applied_once() -> None:
    async def scene() -> None:
        store = MemoryStore()
        registry = Registry()
        only = Replica(registry, MemoryLog(store, twice=True), Clock())
        async with running(only):
            for run in range(1, 6):
                await only.order(Register(group(0, of=1, run=run)))
        assert registry.changes == 5

    asyncio.run(scene())


def test_a_state_is_not_kept_over_one_that_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one may be later, and the entries between are gone: a registry that started then
    would never hear of them.
    """
    monkeypatch.setattr(replica, "TRIM_AFTER", 2)
    kept: list[bytes] = []

    class AtOnce(MemoryLog):
        """Shows entries, and the trim of another registry, without a pause."""

        async def follow(self) -> AsyncIterator[Item]:
            yield Start(b"")
            for number in range(1, 5):
                yield LogEntry("other", number, b"[]")
            yield Trimmed()
            await asyncio.Event().wait()

        async def keep(self, kept_state: bytes, applied: Mapping[str, int]) -> None:
            del applied
            kept.append(kept_state)

    async def scene() -> None:
        running = asyncio.create_task(Replica(Registry(), AtOnce(MemoryStore()), Clock()).run())
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    assert kept == []


def test_a_registry_that_starts_later_becomes_like_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica, "TRIM_AFTER", 4)

    async def scene() -> None:
        clock = Clock()
        store, _, registries, (first, second) = shared(2, clock)
        joining, later = Registry(), MemoryLog(store)
        async with running(first, second):
            for run in range(1, 20):
                await first.order(Register(group(run % 2, run=run)))
            await until_in_loop(lambda: store.trims > 1)
            assert len(store.entries) < 20
            async with running(Replica(joining, later, clock)):
                await until_in_loop(lambda: joining.changes == registries[0].changes)
                assert state(joining) == state(registries[0])

    asyncio.run(scene())


def test_a_change_that_the_store_does_not_take_is_refused() -> None:
    async def scene() -> None:
        _, _, _, (only,) = shared(1, Clock())
        large = Register(group(0, dsv41_spec_layout="x" * CHANGE_BYTES_MAX))
        with pytest.raises(RefusedError, match="the store takes") as refused:
            await only.order(large)
        assert refused.value.status == 413

    asyncio.run(scene())


def test_changes_that_wait_for_a_dead_store_take_bounded_memory() -> None:
    async def scene() -> None:
        _, _, _, (only,) = shared(1, Clock(), order_s=600.0)
        large = Register(group(0, dsv41_spec_layout="x" * (1 << 20)))
        waiting = [asyncio.create_task(only.order(large)) for _ in range(70)]
        done, rest = await asyncio.wait(waiting, timeout=0.1)
        assert len(rest) == WAITING_CHANGES_BYTES_MAX // len(msgspec.json.encode(large))
        assert {one.exception().status for one in done} == {504}  # type: ignore[union-attr]
        for one in rest:
            one.cancel()
        await asyncio.wait(rest)

    asyncio.run(scene())


def test_a_store_remembers_the_last_writers() -> None:
    async def scene() -> None:
        store, _, registries, (only,) = shared(1, Clock())
        async with running(only):
            for writer in range(2 * STORE_WRITERS_MAX):
                store.add(f"other-{writer}", 1, b"[]")
            await only.order(Register(group(0, of=1)))
        state = kept.decoded(kept.encoded(registries[0], only.applied))
        assert len(state.applied) == STORE_WRITERS_MAX
        assert only.name in state.applied
        assert f"other-{2 * STORE_WRITERS_MAX - 1}" in state.applied

    asyncio.run(scene())


# Any changes, in any order, of a server of two data-parallel ranks.
RANKS = st.integers(0, 1)
RUNS = st.integers(1, 4)
ROOMS = st.integers(0, 2)
GENERATIONS = st.none() | st.integers(0, 1)
ROOM = st.builds(Room, ROOMS, RANKS, GENERATIONS)
ASKED = st.builds(lambda room, life: Rooms((room,), () if life is None else (life,), full=True),
                  ROOMS, GENERATIONS)
RUN = st.builds(lambda rank, run: Run(rank, 0, 0, 0, run), RANKS, RUNS)
CHANGES = st.one_of(
    st.builds(lambda rank, run, force, leaving: Register(
        group(rank, run=run, force_query=force, leaving=leaving)),
              RANKS, st.none() | RUNS, st.booleans(), st.none() | st.tuples() | st.tuples(ROOMS)),
    st.builds(KeepAlive, RUN), st.builds(Deregister, RUN),
    st.builds(Publish, ROOM), st.builds(Retire, ROOM),
    st.builds(Query, ASKED), st.builds(Withdraw, ASKED),
)
# After so many seconds what the time asks for is done.
STEPS = st.lists(CHANGES | st.sampled_from([1.0, LEASE_S + 1.0, Limits().room_s]), max_size=30)


def told(registry: Registry, change: Change, now: float) -> object:
    """The answer to a change, or the refusal."""
    try:
        return changes.apply(registry, change, now)
    except RefusedError as refusal:
        return refusal.status, refusal.reason, refusal.exceed


LOOKED_UP: Final = (None, 0, 1, 2)


def listed(registry: Registry, room: int | None) -> object:
    """The answer to a look-up for this room, or the refusal."""
    try:
        return registry.directory(room=room)
    except RefusedError as refusal:
        return refusal.status, refusal.reason


def state(registry: Registry) -> bytes:
    return kept.encoded(registry, {})


# The room comes again on another rank: another life of it, which the registry counts itself.
AGAIN: list[Change | float] = [
    Register(group(0, force_query=True)), Register(group(1, force_query=True)),
    Publish(Room(0, 0)), Publish(Room(0, 1))]


@given(STEPS, STEPS)
@example(AGAIN, [Publish(Room(0, 1)), Query(Rooms((0,), full=True))])
def test_a_state_leads_to_the_registry_that_it_is_of(
    before: list[Change | float], after: list[Change | float]
) -> None:
    """It answers all that comes like the registry that it was taken from, and stays equal to it."""
    original, copied, now = Registry(), Registry(), 0.0
    for step in before:
        now += step if isinstance(step, float) else 0.0
        for change in changes.due(original, now) if isinstance(step, float) else [step]:
            told(original, change, now)
    kept.restore(copied, kept.decoded(state(original)), now)
    assert state(copied) == state(original)
    assert copied.ready == original.ready
    assert copied.missing() == original.missing()
    assert [listed(copied, room) for room in LOOKED_UP] == [
        listed(original, room) for room in LOOKED_UP]
    for step in after:
        now += step if isinstance(step, float) else 0.0
        for change in changes.due(original, now) if isinstance(step, float) else [step]:
            assert told(copied, change, now) == told(original, change, now), change
    assert state(copied) == state(original)


@given(st.lists(st.tuples(st.integers(0, 2), CHANGES), max_size=30), st.integers(0, 2**32))
def test_registries_that_share_a_log_become_equal(
    orders: list[tuple[int, Change]], seed: int
) -> None:
    """Whatever comes to which of them, and however late each reads."""
    async def scene() -> None:
        chance = random.Random(seed)  # noqa: S311 - no secret
        store, logs, registries, replicas = shared(3, Clock())
        async with running(*replicas):
            waiting: list[Coroutine[Any, Any, Any]] = []
            for at, change in orders:
                waiting.append(replicas[at].order(change))
                logs[chance.randrange(3)].shows = chance.random() < 0.5
            for log in logs:
                log.shows = True
            store.show()
            await asyncio.gather(*waiting, return_exceptions=True)
            await until_in_loop(lambda: len({one.changes for one in registries}) == 1)
            assert registries[0].changes == len(orders)
            assert len({state(one) for one in registries}) == 1

    asyncio.run(scene())


def test_old_lives_of_rooms_are_ended_by_the_order() -> None:
    registry = Registry()
    changes.apply(registry, Register(group(0, of=1)), 0.0)
    changes.apply(registry, Publish(Room(7, 0)), 0.0)
    [noticed] = changes.due(registry, Limits().room_s)[1:]
    assert isinstance(noticed, EndLives)
    changes.apply(registry, noticed, 0.0)
    assert registry.open_rooms == 0
    changes.apply(registry, Publish(Room(7, 0)), 0.0)
    changes.apply(registry, noticed, 0.0)  # a registry that has noticed it later
    assert registry.open_rooms == 1
