"""The tables of a process with a defect: a row that the process proposes by itself never fires."""

from lab.sim import planted
from pdproto.runtime.store import Shared
from pdproto.spec.bugs.registry import NO_INCARNATION, STALE_CACHE
from pdproto.spec.handoff import registry
from pdproto.spec.handoff.roles import Source


def test_a_dropped_row_without_a_message_stays_and_never_fires() -> None:
    table = planted._edited(STALE_CACHE, registry.SINK)
    machine = Shared(table, ("d0",), {Source: ("p0",)})
    machine.call("open", 0)
    assert machine.fire("fill", h=0, q=["p0"]) is not None
    assert machine.fire("forget", p=["p0"]) is None


def test_a_dropped_row_on_a_message_is_gone() -> None:
    names = [row.name for row in planted._edited(NO_INCARNATION, registry.SOURCE).rows]
    assert "accept" in names
    assert "decline" not in names
