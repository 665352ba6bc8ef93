"""Three edits of our tables that no schedule of a load meets, on running nodes with sockets.

Each test runs its hand-overs twice: the nodes with the unedited tables end them, and those with the
edited ones do not, or not for its reason. Nothing waits for a fixed time: a later hand-over whose
clock began later has ended.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab.sim import planted
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.handoff.ends import has_met
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import cluster, has_spoken, polls, published
from tests.transport.proxy import proxy
from tests.waiting import until

PATIENT = Link(sign_of_life_s=0.1, silent_s=600.0, grace_s=600.0)
LONG_S = 600.0
SYSTEMS = {bug.id: bug.system for bug in BUGS}


@contextmanager
def tables(defect: str) -> Iterator[None]:
    """Nodes that are made meanwhile run the tables of the defect; "" for the unedited ones."""
    if defect:
        with planted.lent(SYSTEMS[defect]):
            yield
    else:
        yield


def half_delivered() -> KVPoll:
    """A request that one of two ranks has, and decode without memory. Its poll when a request of
    which no rank has heard has ended, which came later.
    """
    with cluster(sources=2, waits={"bootstrap_timeout": 1.0, "no_news": 0.05}) as nodes:
        _, second = nodes.prefills
        sender = second.open(7)
        (receiver,) = nodes.receivers(7)
        until(lambda: receiver.endpoint.value(has_met, (0, 0, 1)) is True)
        (later,) = nodes.receivers(8)
        until(polls([later], KVPoll.FAILED))
        assert later.failure is not None
        assert "bootstrap_timeout" in later.failure
        found = receiver.poll()
        for end in (sender, receiver):
            end.abort("the test ends")
        nodes.settled()
        return found


def queued_unmet() -> str:
    """The clock that ends a request of which prefill has not heard."""
    waits = {"bootstrap_timeout": 1.5, "queue_timeout": 0.05}
    with cluster(waits=waits) as nodes:
        (receiver,) = nodes.receivers(7)
        until(polls([receiver], KVPoll.FAILED))
        nodes.settled()
        return (receiver.failure or "").split()[0]


def aborted_unheard() -> KVPoll:
    """An abort is lost while its source is silent, and no engine can fence it. The poll of the
    sender when the abort of a later request has reached it.
    """
    waits = {"bootstrap_timeout": LONG_S, "transfer_timeout": LONG_S, "no_drain": 0.05,
             "no_bytes": LONG_S}
    with (
        cluster(link=PATIENT, waits=waits, decode={"fences": False}) as nodes,
        proxy(nodes.prefills[0].endpoint) as between,
    ):
        (prefill,), (decode,) = nodes.prefills, nodes.decodes

        def receive(room: int) -> Receiver:
            return published([decode.open(room, {"p0": between.endpoint})])[0]

        sender, receiver = prefill.open(7), receive(7)
        until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
        between.swallows = True
        receiver.abort("the client has left")
        until(lambda: (receiver.life, "p0") in nodes.landing.asked)
        between.cut()
        until(lambda: between.made > 1)
        between.swallows = False
        between.cut()
        until(lambda: between.made > 2 and has_spoken(decode, "p0"))
        later, last = prefill.open(8), receive(8)
        until(polls([later, last], KVPoll.WAITING_FOR_INPUT))
        last.abort("the client has left")
        until(polls([later], KVPoll.FAILED))
        found = sender.poll()
        sender.abort("the test ends")
        nodes.landing.put_up()
        nodes.landing.fences = True
        nodes.settled()
        return found


@pytest.mark.parametrize(("defect", "run", "right", "wrong"), [
    ("met-by-any", half_delivered, KVPoll.FAILED, KVPoll.BOOTSTRAPPING),
    ("queue-timeout-unmet", queued_unmet, "bootstrap_timeout", "queue_timeout"),
    ("abort-in-quarantine", aborted_unheard, KVPoll.FAILED, KVPoll.WAITING_FOR_INPUT),
])
def test_running_nodes_show_the_edit(
    defect: str, run: Callable[[], object], right: object, wrong: object
) -> None:
    with tables(""):
        assert run() == right
    with tables(defect):
        assert run() == wrong
