"""A node is a list of parts: what two of them take, and what none takes, is found when it is made.
"""

from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from pdproto.cli.systems import BUILT_IN, load
from pdproto.group.node import GroupNode
from pdproto.group.passes import PassOptions
from pdproto.node.core import Core
from pdproto.node.decode.node import Decode
from pdproto.node.link import Link
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.part import Part, Parts, Turn
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.routing import DataParallelRank
from pdproto.node.rooms import PrefillRooms
from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE, SinkRole, SourceRole
from pdproto.runtime.sending import SendingEndpoint
from pdproto.runtime.wire import FRAMES, Done, Failed, Life, Publish
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.dp_rank import RECEIVER, SENDER
from pdproto.spec.handoff.ends import Sending, d, h, p
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import AddRow, Call, Completion, Message, Row, Timer, edited
from pdproto.spec.language.machine import Table
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath
from tests.node.offline import Offline
from tests.node.routed import Routed, RoutedCluster

DESK: Final = Routed(RoutedCluster(), "p0")

# A system has the messages that its machines have when it is made: those of others come first.
assert all(map(load, BUILT_IN))
pause = Message("pause", d, h, p, sender=ends.sink, receiver=ends.source)


def with_row(table: Table, row: Row) -> Table:
    system = edited(SYSTEM, "one-more", AddRow(table.machine, row))
    return system.table(table.machine)


def prefill(role: SourceRole = SOURCE_ROLE, **options: Any) -> Prefill:
    return Prefill("p0", SourceDataPath("p0", Fabric()), link=Link(), incarnation=5, role=role,
                   **options)


def decode(role: SinkRole = SINK_ROLE) -> Decode:
    return Decode("d0", SinkDataPath("d0", Fabric()), link=Link(), incarnation=7, role=role)


@pytest.mark.parametrize(("row", "why"), [
    (Row("pause", on=pause(d, h, p), at=Sending.TRANSFERRING, to=Sending.FAILED),
     "source: message pause, for which row pause waits: no part of the node takes it"),
    (Row("one_more", on=Call("pause_sender"), at=Sending.TRANSFERRING, to=Sending.FAILED),
     "source: call pause_sender: no part of the node takes it"),
    (Row("one_more", on=Timer("no_pause"), at=Sending.TRANSFERRING, to=Sending.FAILED),
     "source: timer no_pause: no part of the node takes it"),
    (Row("one_more", on=Completion("paused"), at=Sending.TRANSFERRING, to=Sending.FAILED),
     "source: completion paused: no part of the node takes it"),
], ids=["message", "call", "timer", "completion"])
def test_a_table_of_which_no_part_takes_something_is_refused(row: Row, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        prefill(SourceRole(with_row(SOURCE, row)))


def test_a_message_that_no_part_writes_is_refused() -> None:
    row = Row("pause", on=Timer("no_news"), at=ends.Receiving.TRANSFERRING, send=[pause(d, h, p)],
              choose=(p,))
    with pytest.raises(ValueError, match=r"^sink: message pause, which row "):
        decode(SinkRole(with_row(SINK, row)))


def take(*_: object) -> Any:
    """Nothing happens."""


@pytest.mark.parametrize(("taken", "about"), [
    ({"frames": {Done: take}}, "frame Done"), ({"writers": {ends.done: take}}, "message done"),
    ({"timers": {"no_news": take}}, "timer no_news"), ({"calls": {"send": take}}, "call send"),
    ({"completions": {"error": take}}, "completion error"),
    ({"reactions": {(ends.kv, False): take}}, "change"),
    ({"replaces": {Publish: Done}}, "frame Publish"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_two_parts_that_take_the_same_are_refused(taken: dict[str, Any], about: str) -> None:
    with pytest.raises(ValueError, match=f"^{about}.*: two parts take it: one and other$"):
        Core("p0", Link(), 1).assemble(Part("one", **taken), Part("other", **taken))


def test_a_table_that_a_part_runs_alone_is_checked_with_that_part_alone() -> None:
    """Another part that takes calls of the same names, of another table, does not help."""
    calls = {row.on.name: take for row in SOURCE.rows if isinstance(row.on, Call)}
    other = Part("other", calls=calls, frames=dict.fromkeys(FRAMES.values(), take))
    with pytest.raises(ValueError, match=r"^source: call open_sender: no part of the node"):
        Parts([Part("one", runs=SOURCE), other])


def test_a_room_table_of_which_the_routing_takes_not_all_is_refused(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    for side, table in (("decode", RECEIVER), ("prefill", SENDER)):
        row = Row("pause", on=Timer("no_pause"))
        name = table.machine.name
        monkeypatch.setattr(f"pdproto.node.{side}.routing.{name.upper()}",
                            replace(table, rows=(*table.rows, row)))
        with pytest.raises(ValueError, match=f"^{name}: timer no_pause: no part of the node"):
            decode() if side == "decode" else prefill(dp=rank())


def rank() -> DataParallelRank:
    return DataParallelRank(PrefillRooms(0, 2, publishes=False), DESK)


def test_every_call_and_completion_is_made_by_the_method_that_is_declared_for_it() -> None:
    """So none is declared that no code makes. `send` is made by the endpoint itself."""
    made: list[str] = []
    for node in (prefill(), decode()):
        for name, method in {**node.core.parts.calls, **node.core.parts.completions}.items():
            assert name in constants(SendingEndpoint.hand_over if name == "send" else method), name
            made.append(name)
    assert sorted(made) == sorted({row.on.name for table in (SOURCE, SINK) for row in table.rows
                                   if isinstance(row.on, Call | Completion)})


def constants(function: Any) -> tuple[object, ...]:
    return tuple(function.__code__.co_consts)


def test_each_frame_goes_to_one_part_of_each_node_that_takes_it() -> None:
    ranks = {0: "ipc://0", 1: "ipc://1"}
    settings = OptimisticSettings(slots=1, running_slots=1)
    nodes = {"prefill": prefill(dp=rank()).core, "decode": decode().core}
    for me, name in enumerate(("entry", "rank")):
        nodes[name] = GroupNode(
            "g", ranks, me=me, slots=1, stop=lambda _: True, entry=0, link=Link(), incarnation=1,
            waits=None, trace=None, passes=PassOptions(settings)).core
    frames = {name: sorted(kind.__name__ for kind in core.parts.frames)
              for name, core in nodes.items()}
    for node, machine, routed in (("prefill", ends.source, ["Disown", "Meet"]),
                                  ("decode", ends.sink, ["Met", "Refuse"])):
        of_transfer = [kind.__name__ for kind in FRAMES.values()
                       if kind.message.receiver.machine is machine]
        assert frames[node] == sorted(of_transfer + routed)
    decided = ["Admit", "Drop", "Fail", "PassDecision", "Release", "Request"]
    votes = ["Broke", "Closed", "Dead", "Ended", "PassReport", "Ready"]
    assert frames["entry"] == sorted(decided + votes)
    assert frames["rank"] == decided


def test_a_frame_that_no_part_takes_is_dropped_and_named(
    caplog: pytest.LogCaptureFixture
) -> None:
    node = prefill()
    offline = Offline(node.core)
    life = Life(7, 17, 0)
    offline.hear("d0", Publish(life, b"here", 1, ("d0",), "tcp://d0:1"), Failed(life, ""))
    assert node.metrics.read()["refused_frames"] == 1
    assert "failed: no part of this node takes it" in caplog.text


def test_the_phases_of_a_turn_come_in_their_order_and_reports_twice() -> None:
    seen: list[str] = []

    def note(what: str, _now: float) -> None:
        seen.append(what)

    core = Core("p0", Link(), 1)
    core.assemble(*(Part(name, turns={
        phase: partial(note, f"{phase.name} {name}") for phase in Turn}) for name in "ab"))
    Offline(core).turn()
    phases = ["ROOMS", "REPORTS", "WAITS", "ROOM", "REPORTS", "LAST"]
    assert seen == [f"{phase} {name}" for phase in phases for name in "ab"]
