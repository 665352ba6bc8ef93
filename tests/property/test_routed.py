"""Any router, any order of messages: both halves of a request meet, or both fail without a clock.

Real nodes, real frames and the registry's own machine; Hypothesis chooses where the router puts
each request, which half is lost, and the order in which everything arrives.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.spec.bugs.dp_rank import CONFLICT_UNSAID, MISPLACED
from pdproto.spec.handoff import dp_rank
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.routing import disown, h, x, y
from pdproto.spec.language import DropEffect, DropRow, edited
from pdproto.spec.language.system import System
from tests.node.routed import RoutedCluster
from tests.property.profiles import runs

FAILED, MET = (KVPoll.FAILED, KVPoll.WAITING_FOR_INPUT)


@dataclass(frozen=True)
class Request:
    """A request as the router has it. named: the rank in it. lost: the half that does not arrive.

    late: the other half comes only when all is quiet.
    """

    rank: int
    named: int | None
    lost: str
    prefill_first: bool
    late: bool


def requests(ranks: int) -> st.SearchStrategy[Request]:
    rank = st.integers(0, ranks - 1)
    return st.builds(Request, rank, st.none() | rank, st.sampled_from(["", "", "", "p", "d"]),
                     st.booleans(), st.booleans())


@st.composite
def servers(draw: st.DrawFn) -> tuple[int, bool, list[Request]]:
    ranks = draw(st.integers(2, 3))
    return ranks, draw(st.booleans()), draw(st.lists(requests(ranks), min_size=1, max_size=4))


Ends = tuple[Sender | None, Receiver | None]


def run(
    cluster: RoutedCluster, asked: list[Request], data: st.DataObject
) -> list[Ends]:
    """Bring both halves of each request, and then all messages, in an order that is drawn."""
    senders: dict[int, Sender] = {}
    receivers: dict[int, Receiver] = {}
    halves = []
    for room, request in enumerate(asked, start=7):
        two = [(room, request, "p"), (room, request, "d")]
        halves.append([half for half in (two if request.prefill_first else two[::-1])
                       if half[2] != request.lost])

    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    for late in (False, True):
        for request_halves in halves:
            for at, (room, request, side) in enumerate(request_halves):
                if (at > 0 and request.late) is late:
                    if side == "p":
                        senders[room] = cluster.put(room, request.rank, request.named)
                    else:
                        receivers[room] = cluster.want(room, request.named)
                    for _ in range(data.draw(st.integers(0, 3))):
                        ready = cluster.choices()
                        if ready:
                            ready[choose(len(ready))]()
        cluster.settle(choose)
    return [(senders.get(room), receivers.get(room)) for room in range(7, 7 + len(asked))]


def problem(request: Request, room: int, ranks: int, ends: Ends, *, publishes: bool) -> str:
    """What is wrong with the ends of a request, when everything has arrived."""
    sender, receiver = ends
    right = request.rank if publishes else room % ranks
    looks = right if request.named is None else request.named
    polls = [end and end.poll() for end in ends]
    conflict = looks != request.rank
    if sender is not None and receiver is not None:
        if polls != [FAILED if conflict else MET] * 2:
            return f"{polls} of {request}"
        reasons = [str(sender.failure), str(receiver.failure)] if conflict else []
        named = (f"rank {request.rank}", f"rank {looks}", "" if request.named is not None
                 else "set force_query on every rank")
        missing = [reason for reason in reasons for part in named if part not in reason]
        return f"{missing} lacks one of {named}" if missing else ""
    if sender is not None and (polls[0] is FAILED) is not conflict:
        return f"{polls} of {request}, whose other half is lost"
    if receiver is not None and polls[1] is FAILED:
        return f"{polls} of {request}, whose other half is lost"
    return ""


def check(
    server: tuple[int, bool, list[Request]], data: st.DataObject,
    system: System = dp_rank.SYSTEM,
) -> None:
    ranks, publishes, asked = server
    cluster = RoutedCluster(ranks, publishes=publishes, system=system)
    ends = run(cluster, asked, data)
    for room, (request, both) in enumerate(zip(asked, ends, strict=True), start=7):
        assert problem(request, room, ranks, both, publishes=publishes) == ""
    if not publishes:
        assert not cluster.told.keys() & {"publish", "retire", "query", "withdraw"}, "M2.4"
    cluster.check()
    for sender, receiver in ends:
        if sender and receiver and sender.poll() is not FAILED:
            cluster.hand_over(sender, receiver)
    cluster.pass_time(300)
    for both in ends:
        assert all(end.poll() in (FAILED, KVPoll.SUCCESS) for end in both if end), "it has a clock"
    assert not any(node.lives or (node.routing and node.routing._placed)
                   for node in cluster.prefills)
    assert (len(cluster.decode.routing._sought), len(cluster.decode.lives)) == (0, 0)
    assert all(len(node.routing._rooms) == 0 for node in cluster.prefills if node.routing)


@runs(30)
@given(servers(), st.data())
def test_m2_both_halves_meet_or_fail_without_a_clock(
    server: tuple[int, bool, list[Request]], data: st.DataObject
) -> None:
    check(server, data)


@pytest.mark.parametrize("system", [
    CONFLICT_UNSAID, MISPLACED,
    edited(dp_rank.SYSTEM, "not-turned-away", DropRow("turn_away"), DropRow("turn_away_again")),
    edited(dp_rank.SYSTEM, "named-unsaid", DropEffect("fail_misplaced", disown(x, h, y))),
], ids=lambda system: system.name)
def test_a_defect_in_the_tables_that_the_nodes_run_is_seen(system: System) -> None:
    @runs(100)
    @given(servers(), st.data())
    def look(server: tuple[int, bool, list[Request]], data: st.DataObject) -> None:
        check(server, data, system)

    with pytest.raises(AssertionError, match="of Request"):
        look()
