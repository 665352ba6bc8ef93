"""The tables of dp-rank between real nodes, by real frames: without sockets and without a clock."""

from typing import Final

import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.node.rooms import PrefillServer
from pdproto.spec.bugs.dp_rank import BUGS, CONFLICT_UNSAID
from pdproto.spec.handoff import dp_rank
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.routing import Phase, Runs, disown, h, x, y
from pdproto.spec.language import Call, DropEffect, DropRow, Ignore, ReplaceRow, edited
from pdproto.spec.language.system import System
from tests.node.routed import RoutedCluster

RULE = "room 7 was put on data-parallel rank 0, and decode looks for it on rank 1 (room modulo 2)"
NAMED = "room 6 was put on data-parallel rank 0, and the request names rank 1"
ENDING = {
    "end_waiting": Ignore(Call("end_room", x, h), at=Runs.WAITING, name="end_waiting",
                          why="the room is forgotten with its hand-over"),
    "stop_looking": Ignore(Call("end_request", h), at=(Phase.PENDING, Phase.RESOLVED),
                           name="stop_looking", why="the question is forgotten as well"),
}
NOT_YET = (KVPoll.BOOTSTRAPPING, KVPoll.WAITING_FOR_INPUT)


def both(sender: Sender, receiver: Receiver) -> tuple[KVPoll, KVPoll]:
    return sender.poll(), receiver.poll()


def test_m2_4_a_room_that_keeps_to_the_rule_costs_no_batch_and_no_request() -> None:
    """The frames of the resolution go out with those of the hand-over."""
    cluster = RoutedCluster()
    sender, receiver = cluster.put(7, 1), cluster.want(7)
    cluster.settle()
    assert both(sender, receiver) == (KVPoll.WAITING_FOR_INPUT, KVPoll.WAITING_FOR_INPUT)
    assert (cluster.said["meet"], cluster.said["met"]) == (1, 1)
    before = cluster.delivered
    cluster.hand_over(sender, receiver)
    assert cluster.told == {"look up": 1}
    assert before <= 3, "introduce and meet; met; publish"
    cluster.pass_time(3)
    cluster.check()
    assert [len(node.routing._placed) for node in cluster.prefills if node.routing] == [0, 0]
    assert len(cluster.decode.routing._sought) == 0
    assert all(len(node.routing._rooms) == 0 for node in cluster.prefills if node.routing)


@pytest.mark.parametrize(("room", "named", "why"), [(7, None, RULE), (6, 1, NAMED)])
@pytest.mark.parametrize("decode_first", [True, False])
def test_m2_3_a_room_on_the_wrong_rank_fails_both_sides_without_a_clock(
    room: int, named: int | None, why: str, decode_first: bool
) -> None:
    cluster = RoutedCluster()
    if decode_first:
        receiver = cluster.want(room, named)
        cluster.settle()
        assert receiver.poll() in NOT_YET
        sender = cluster.put(room, 0, named)
    else:
        sender = cluster.put(room, 0, named)
        cluster.settle()
        receiver = cluster.want(room, named)
    cluster.settle()
    assert both(sender, receiver) == (KVPoll.FAILED, KVPoll.FAILED)
    assert str(sender.failure).startswith(why)
    assert f"p1: p0: {why}" in str(receiver.failure)
    assert [end.transient for end in (sender, receiver)] == [False] * 2
    if named is None:
        for reason in (sender.failure, receiver.failure):
            assert "set force_query on every rank" in str(reason)
    cluster.pass_time(240)
    cluster.check()
    assert [len(node.routing._placed) for node in cluster.prefills if node.routing] == [0, 0]
    assert [len(node.lives) for node in (*cluster.prefills, cluster.decode)] == [0, 0, 0]
    held = {name: value for node in (*cluster.prefills, cluster.decode)
            for name, value in node.metrics.read().items() if name.startswith("num_") and value}
    assert held == {}


UNSAID_NAMED = edited(dp_rank.SYSTEM, "named-unsaid", DropEffect("fail_misplaced", disown(x, h, y)))
NOT_TURNED_AWAY = edited(dp_rank.SYSTEM, "not-turned-away", DropRow("turn_away"),
                         DropRow("turn_away_again"))


@pytest.mark.parametrize(("room", "named", "system"), [
    (7, None, CONFLICT_UNSAID), (6, 1, UNSAID_NAMED), (7, None, NOT_TURNED_AWAY)])
def test_without_the_row_decode_waits_for_its_clock(room: int, named: int | None, system) -> None:  # type: ignore[no-untyped-def]
    """What the test above would see: the defect is put into the tables that the nodes run."""
    cluster = RoutedCluster(system=system)
    sender, receiver = cluster.put(room, 0, named), cluster.want(room, named)
    cluster.settle()
    assert sender.poll() is KVPoll.FAILED
    assert receiver.poll() in NOT_YET
    cluster.pass_time(58)
    assert receiver.poll() in NOT_YET
    cluster.pass_time(4)
    assert receiver.failure == "unresolved after 60 s"


def test_m2_5_a_half_that_comes_alone_ends_by_its_own_clock() -> None:
    cluster = RoutedCluster(waits={"no_decode": 20.0, "unresolved": 30.0})
    sender, receiver = cluster.put(6, 0), cluster.want(5)
    cluster.pass_time(19)
    assert sender.poll() in NOT_YET
    cluster.pass_time(2)
    assert sender.failure == "no_decode after 20 s"
    assert receiver.poll() in NOT_YET
    cluster.pass_time(10)
    assert receiver.failure == "unresolved after 30 s"
    late = cluster.want(6)
    cluster.settle()
    assert late.failure == "p0: no_decode after 20 s", "it is turned away, and need not wait"
    assert [end.transient for end in (sender, receiver, late)] == [True] * 3
    cluster.check()


def test_a_question_under_way_when_prefills_clock_ends_is_told_to_send_it_again() -> None:
    """The servers know each other, so an address takes the place of the introduction, and the
    answer to the question after the rank comes before the failure of the life.
    """
    cluster = RoutedCluster(waits={"no_decode": 20.0, "unresolved": 300.0})
    cluster.want(0)
    cluster.put(0, 0)
    cluster.settle()
    sender = cluster.put(6, 0)
    cluster.pass_time(15)
    receiver = cluster.want(6)
    cluster.serve("d")
    for _ in range(10):
        cluster.now += 1
        cluster.processes["p0"].turn()
    assert sender.failure == "no_decode after 20 s"
    cluster.pass_time(3)
    assert cluster.said["refuse"] == 1
    assert (receiver.failure, receiver.transient) == ("p0: no_decode after 20 s", True)
    cluster.check()


LEFT_OUT: Final = {"by the rule": (7, None, False), "by name": (6, 1, False),
                   "by the list": (7, None, True)}
WITHOUT_ADDRESS: Final = {bug.id: bug.system for bug in BUGS
                          if bug.id in ("rank-without-address", "no-address-unsaid")}


def left_out(way: str, system: System = dp_rank.SYSTEM) -> tuple[Receiver, RoutedCluster]:
    """A request for rank 1, which the registry does not name, and another one, which goes on."""
    room, named, publishes = LEFT_OUT[way]
    cluster = RoutedCluster(publishes=publishes, drains=1, system=system)
    receiver, other = cluster.want(room, named), cluster.want(8)
    cluster.put(8, 0)
    if publishes:
        cluster.put(room, 1)
    cluster.settle()
    assert other.poll() is KVPoll.WAITING_FOR_INPUT
    return receiver, cluster


@pytest.mark.parametrize("way", LEFT_OUT)
def test_a_rank_that_the_registry_does_not_name_fails_the_request_which_may_be_sent_again(
    way: str
) -> None:
    """It drains, before a restart: a request that it has is named its address."""
    receiver, cluster = left_out(way)
    assert receiver.failure == ("prefill server registry:1: its registry does not name "
                                "data-parallel rank 1: it drains")
    assert receiver.transient
    cluster.check()


@pytest.mark.parametrize(("bug", "way"), [
    *(("rank-without-address", way) for way in LEFT_OUT), ("no-address-unsaid", "by the rule")])
def test_the_table_decides_what_becomes_of_a_rank_without_address(bug: str, way: str) -> None:
    assert left_out(way, WITHOUT_ADDRESS[bug])[0].poll() in NOT_YET, "nobody will answer"


def test_a_registry_that_names_no_rank_fails_the_request() -> None:
    """As for a server that is not known: so also where there is one rank, which runs no table."""
    cluster = RoutedCluster(1, drains=0)
    receiver = cluster.want(7)
    cluster.settle()
    assert receiver.failure == ("prefill server registry:1: its registry does not name "
                                "data-parallel rank 0: it drains")
    assert receiver.transient
    cluster.check()


def test_a_rank_of_which_nothing_feeds_this_decode_is_not_said_to_drain() -> None:
    cluster = RoutedCluster()
    cluster.server = PrefillServer(2, True, {0: {"p0": "p0"}, 1: {}})
    receiver = cluster.want(7)
    cluster.settle()
    assert receiver.failure == ("prefill server registry:1: its registry does not name "
                                "data-parallel rank 1: none of its ranks sends to d")


@pytest.mark.parametrize("decode_first", [True, False])
def test_m2_3_with_every_room_published_decode_finds_it_anywhere(decode_first: bool) -> None:
    cluster = RoutedCluster(publishes=True)
    if decode_first:
        receiver = cluster.want(7)
        cluster.settle()
        sender = cluster.put(7, 0)
    else:
        sender = cluster.put(7, 0)
        cluster.settle()
        receiver = cluster.want(7)
    cluster.settle()
    assert both(sender, receiver) == (KVPoll.WAITING_FOR_INPUT, KVPoll.WAITING_FOR_INPUT)
    cluster.hand_over(sender, receiver)
    assert cluster.told == {"look up": 1, "publish": 1, "query": 1, "retire": 1}
    cluster.check()


def test_a_room_that_was_given_up_is_over_for_whoever_asks_later() -> None:
    cluster = RoutedCluster(publishes=True)
    cluster.put(7, 0).abort("the client has left")
    cluster.processes["p0"].turn()
    cluster.settle()
    receiver = cluster.want(7)
    cluster.settle()
    assert receiver.failure == "room 7: the rank that ran it has given it up"
    cluster.check()


@pytest.mark.parametrize("row", ["end_waiting", "stop_looking"])
def test_without_its_row_the_registry_does_not_hear_of_a_hand_over_that_has_ended(row: str) -> None:
    """The two tests around this one see the defect, put into the tables that the nodes run."""
    ignored = edited(dp_rank.SYSTEM, "unended", ReplaceRow(row, ENDING[row]))
    cluster = RoutedCluster(publishes=True, system=ignored)
    end = cluster.put(7, 0) if row == "end_waiting" else cluster.want(7)
    cluster.settle()
    end.abort("the client has left")
    for process in cluster.processes.values():
        process.turn()
    cluster.settle()
    assert cluster.told["retire"] == cluster.told["withdraw"] == 0


def test_a_client_that_leaves_withdraws_its_question() -> None:
    cluster = RoutedCluster(publishes=True)
    receiver = cluster.want(7)
    cluster.settle()
    receiver.abort("the client has left")
    cluster.processes["d"].turn()
    cluster.settle()
    assert receiver.failure == "the client has left"
    assert cluster.told["withdraw"] == 1
    assert (len(cluster.decode.routing._sought), len(cluster.decode.lives)) == (0, 0)
    cluster.check()


def test_a_strangers_text_is_one_line_of_a_reason() -> None:
    """Seen red with the text as it was given."""
    cluster = RoutedCluster()
    receiver = cluster.want(7, server="elsewhere:1\n2026-01-01 ERROR of its own")
    cluster.settle()
    assert receiver.failure == (
        r"prefill server elsewhere:1\n2026-01-01 ERROR of its own: nobody has registered")


def test_m1_2_a_failed_look_up_fails_the_request_for_its_reason() -> None:
    cluster = RoutedCluster()
    receiver = cluster.want(7, server="elsewhere:1")
    cluster.settle()
    assert receiver.failure == "prefill server elsewhere:1: nobody has registered"
    assert receiver.transient
    assert receiver.released
    after = cluster.want(8)
    cluster.put(8, 0)
    cluster.settle()
    assert after.poll() is KVPoll.WAITING_FOR_INPUT, "those behind it are not held up"
    cluster.check()


def test_a_rank_that_does_not_exist_fails_the_request_that_names_it() -> None:
    cluster = RoutedCluster()
    sender, receiver = cluster.put(7, 1, named=9), cluster.want(7, named=9)
    cluster.settle()
    why = "the request names data-parallel rank 9, and there are 0 to 1"
    assert sender.failure == f"room 7: {why}", "9 is no Group"
    assert receiver.failure == f"prefill server registry:1: {why}"


def test_the_sender_fails_where_it_was_put_and_a_retry_on_the_right_rank_runs() -> None:
    cluster = RoutedCluster()
    first, asked = cluster.put(7, 0), cluster.want(7)
    cluster.settle()
    assert both(first, asked) == (KVPoll.FAILED, KVPoll.FAILED)
    again, retry = cluster.put(7, 1), cluster.want(7)
    cluster.settle()
    assert both(again, retry) == (KVPoll.WAITING_FOR_INPUT, KVPoll.WAITING_FOR_INPUT)
    cluster.hand_over(again, retry)
    cluster.check()
