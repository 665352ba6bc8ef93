"""A process without I/O: who gets its frames, when its clocks run out, and what it refuses."""

from collections.abc import Iterator

import pytest

from examples.lease_lock import SYSTEM, Token, has, last, lent
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.process import FIRED_MAX, FRAME_BYTES_MAX, Name, Process
from pdproto.spec.language import (
    Call,
    Machine,
    Message,
    Row,
    Sort,
    SpecError,
    System,
    Table,
)

NAMES: tuple[Name, ...] = (("server",), ("store",), ("client", "ann"), ("client", "bob"))
WAITS = {"lease_over": 2.0}


def server(tokens: Iterator[int] | None = None) -> Process:
    numbers = tokens or iter(range(100))
    return Process(SYSTEM, "server", among=NAMES, waits=WAITS,
                   choose={"lend": lambda: {"t": next(numbers)}})


def client(name: str) -> Process:
    return Process(SYSTEM, "client", name, among=NAMES)


def test_a_message_goes_to_the_instance_that_it_names() -> None:
    ann, lender = client("ann"), server()
    ann.call("lock", now=0.0)
    ((to, frame),) = ann.outgoing()
    assert to == ("server",)
    lender.take(frame, 0.0)
    ((to, frame),) = lender.outgoing()
    assert to == ("client", "ann")
    ann.take(frame, 0.0)
    assert ann.machine.stored(has) == {("ann", 0): True}
    assert ann.outgoing() == []


class Member(Sort):
    """A process that listens."""


m = Member("m")
leader, member = Machine("leader"), Machine("member", m)
heard, begun = member.relation("heard"), leader.relation("begun")
news = Message("news", sender=leader, receiver=member)
RADIO = System("radio", "A broadcast.", tables=(
    Table(leader, rows=(
        Row("begin", on=Call("begin"), do=[begun().to(True)], send=[news()]),)),
    Table(member, rows=(Row("hear", on=news(), do=[heard(m).to(True)]),)),
))  # fmt: skip


def test_a_message_that_names_nobody_goes_to_all() -> None:
    members = [("member", 0), ("member", 1)]
    speaker = Process(RADIO, "leader", among=[("leader",), *members])
    speaker.call("begin", now=0.0)
    assert speaker.outgoing() == [(name, b'["news",[]]') for name in members]


def lend(lender: Process, now: float) -> None:
    lender.take(b'["want",["ann"]]', now)


def test_a_clock_starts_when_its_row_can_fire() -> None:
    lender = server()
    assert lender.turn(0.0) is None
    lend(lender, 10.0)
    assert lender.turn(11.5) == 0.5
    assert lender.machine.stored(lent)
    assert lender.turn(12.0) is None
    assert not lender.machine.stored(lent)


def test_a_clock_stops_when_its_row_can_fire_no_more() -> None:
    lender = server()
    lend(lender, 10.0)
    lender.take(b'["back",["ann",0]]', 11.0)
    assert lender.turn(11.0) is None
    lend(lender, 11.9)
    assert lender.turn(12.0) == pytest.approx(1.9)


def test_a_clock_starts_anew_for_another_lease() -> None:
    """The lease is given back and lent again between two turns: the next one has its full time."""
    lender = server()
    lend(lender, 10.0)
    lender.take(b'["want",["ann"]]', 10.5)
    lender.take(b'["back",["ann",0]]', 11.0)  # the second wish is granted at once
    assert len(lender.machine.stored(lent)) == 1
    assert lender.turn(12.0) == pytest.approx(1.0)


@pytest.mark.parametrize("frame", [
    b"", b"{}", b"[]", b'["want"]', b'["want",["ann",1]]', b'["want",["eve"]]',
    b'["steal",["ann"]]', b'["want",[null]]', b'["want",[1.5]]', b'["want",[true]]',
    b'["back",["ann",{}]]', b"\xff",
    b'["want",["' + b"a" * FRAME_BYTES_MAX + b'"]]', b"[" * 10_000,
])  # fmt: skip
def test_other_bytes_change_nothing_and_are_counted(frame: bytes) -> None:
    lender = server()
    assert lender.take(frame, 0.0) is None
    assert lender.refused == 1
    assert not len(lender.machine)
    assert lender.outgoing() == []


def test_a_call_that_no_row_allows_is_told_to_the_caller() -> None:
    with pytest.raises(LocalProtocolError, match="write"):
        client("ann").call("write", now=0.0)


def test_elements_with_parts_travel() -> None:
    shop = Process(SYSTEM, "store", among=NAMES)
    shop.take(b'["write",["ann",[3,"a"]]]', 0.0)
    assert shop.machine.stored(last) == {((3, "a"),): True}
    assert shop.machine.element(last) == (3, "a")


def test_rows_without_a_trigger_that_fire_for_ever_are_refused() -> None:
    spin = Machine("spin")
    on = spin.relation("on", Token)
    t = Token("t")
    looping = System("looping", "It never ends.", tables=(
        Table(spin, rows=(Row("more", choose=(t,), when=[~on(t)], do=[on(t).to(True)]),)),))
    numbers = iter(range(FIRED_MAX + 10))
    process = Process(looping, "spin", among=[("spin",)],
                      choose={"more": lambda: {"t": next(numbers)}})
    with pytest.raises(SpecError, match="for ever"):
        process.turn(0.0)


@pytest.mark.parametrize(("machine", "own", "among", "waits", "problem"), [
    ("servr", (), NAMES, WAITS, "has no machine 'servr'; it has: client, server, store"),
    ("server", (), NAMES, {}, "timer 'lease_over' has no wait: pass waits="),
    ("server", (), NAMES[1:], WAITS, "`among` lacks this process itself"),
    ("client", (), NAMES, WAITS, "names no instance of lease-lock"),
    ("server", (), (*NAMES, ("judge",)), WAITS, "names no instance of lease-lock"),
])  # fmt: skip
def test_arguments_that_do_not_fit_the_system_are_refused(
    machine: str, own: tuple[str, ...], among: tuple[Name, ...], waits: dict[str, float],
    problem: str,
) -> None:  # fmt: skip
    with pytest.raises(SpecError, match=problem):
        Process(SYSTEM, machine, *own, among=among, waits=waits)
