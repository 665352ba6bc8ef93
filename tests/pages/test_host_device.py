"""The simulated device keeps the rules of a real one, and no more than those."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.pages.device import DeviceEvent

torch = pytest.importorskip("torch")

from pdproto.pages.host_device import HostDevice  # noqa: E402 - needs torch

STREAMS: Final = 3
QUESTIONS: Final = 10_000

work = st.tuples(st.just("work"), st.integers(0, STREAMS - 1))
mark = st.tuples(st.just("mark"), st.integers(0, STREAMS - 1))
wait = st.tuples(st.just("wait"), st.integers(0, STREAMS - 1))


@given(seed=st.integers(0, 1 << 30), given_=st.lists(st.one_of(work, mark, wait), max_size=30),
       data=st.data())
def test_an_event_happens_behind_the_work_before_it(
    seed: int, given_: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Work of one stream is done in order; a stream that waits does nothing meanwhile."""
    device = HostDevice(seed)
    streams = [device.stream() for _ in range(STREAMS)]
    done: list[int] = []
    behind: list[set[int]] = [set() for _ in streams]  # what precedes the next work of a stream
    events: list[tuple[DeviceEvent, set[int]]] = []
    before: dict[int, set[int]] = {}
    for number, (call, place) in enumerate(given_):
        stream = streams[place]
        if call == "work":
            stream.run(lambda _, number=number: done.append(number))  # type: ignore[misc]
            before[number] = set(behind[place])
            behind[place].add(number)
        elif call == "mark":
            events.append((stream.record(), set(behind[place])))
        elif events:
            event, needs = data.draw(st.sampled_from(events))
            stream.wait(event)
            behind[place] |= needs
    ends = [(stream.record(), behind[place]) for place, stream in enumerate(streams)]
    for event, needs in data.draw(st.permutations([*events, *ends])):
        finish(event)
        assert needs <= set(done)
    assert sorted(done) == sorted(before)
    for place, number in enumerate(done):
        assert before[number] <= set(done[:place])


def order(seed: int, given_: Sequence[int]) -> list[int]:
    """The streams of pieces of work that are given to these two streams, in the order of doing."""
    device = HostDevice(seed)
    streams, done = [device.stream() for _ in range(2)], list[int]()
    for place in given_:
        streams[place].run(lambda _, place=place: done.append(place))  # type: ignore[misc]
    for end in [stream.record() for stream in streams]:
        finish(end)
    return done


def finish(end: DeviceEvent) -> None:
    for _ in range(QUESTIONS):
        if end.query():
            return
    pytest.fail("the event never happens")


def test_streams_overtake_each_other() -> None:
    assert {tuple(order(seed, (0, 1))) for seed in range(40)} == {(0, 1), (1, 0)}


def test_a_copy_that_is_read_early_has_holes() -> None:
    source = torch.ones(64, dtype=torch.uint8)
    seen = set()
    for seed in range(40):
        device = HostDevice(seed)
        stream, target = device.stream(), torch.zeros(64, dtype=torch.uint8)
        stream.copy(target, source)
        end = stream.record()
        while not end.query():
            seen.add(tuple(target[::16].tolist()))
        assert target.all()
    assert (0, 1, 0, 1) in seen
    assert (1, 1, 0, 0) in seen


def test_a_stream_stalls_while_others_work() -> None:
    """Now and then one does nothing while another does ten steps."""
    orders = [order(seed, (0, 1) * 60)[:60] for seed in range(20)]
    assert max(len(list(run)) for found in orders for _, run in groupby(found)) >= 10


def failing_calls() -> dict[str, Callable[[], object]]:
    """Calls of a device that has failed."""
    device = HostDevice()
    event, stream = device.passed(), device.stream()
    device.fail("an illegal memory access was encountered")
    return {
        "run": lambda: stream.run(lambda _: None),
        "copy": lambda: stream.copy(torch.zeros(1), torch.zeros(1)),
        "wait": lambda: stream.wait(event), "record": stream.record, "query": event.query,
        "memory": lambda: device.memory(1), "host_memory": lambda: device.host_memory(1),
    }


@pytest.mark.parametrize("call", failing_calls())
def test_after_a_failure_every_call_fails(call: str) -> None:
    with pytest.raises(RuntimeError, match="illegal memory access"):
        failing_calls()[call]()
