"""Requests for decode's memory that wait, and those that are refused: a running node does as the
table says (spec/handoff/decode_memory.py), and each defect of the table is seen in it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final
from unittest.mock import patch

import pytest

from pdproto.node.decode.receiver import Receiver
from pdproto.node.decode.refusals import Refusals
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.handoff.decode_memory import QUEUE, queue
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.machine import Table
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.waiting import until

REASON: Final = "lease: no staging memory of 4096 bytes: Too many open files"
TABLES: Final = {"": QUEUE} | {
    bug.id: table for bug in BUGS for table in bug.system.tables if table.machine is queue}


@contextmanager
def nodes_with(table: Table) -> Iterator[Cluster]:
    """A pair of nodes that run this table. Copies end when the test says so."""
    with (cluster(decode={"at_once": False}) as nodes,
          patch.object(nodes.decodes[0]._node.memory, "refusals", Refusals(table))):
        yield nodes


def waits(nodes: Cluster, receiver: Receiver, why: str = "") -> bool:
    """Whether the request is in the queue for memory after a turn that looked at it. why: the
    reason of the system, which the node tells its operator.
    """
    node = nodes.decodes[0]
    until(lambda: receiver.poll() is KVPoll.FAILED
          or node.metrics.read()["num_decode_memory_queue_reqs"] == 1)
    for _ in range(2):  # when the second one is called, the turn of the first one is over
        turned = Event()
        node._core.ask(turned.set)
        assert turned.wait(30)
    assert receiver.poll() is KVPoll.FAILED or why in (node.health() or "")
    return receiver.poll() is KVPoll.BOOTSTRAPPING


@pytest.mark.parametrize(("bug", "refused"), [("", True), ("memory-waits-for-nothing", False)])
def test_a_request_is_refused_where_no_memory_comes_back(bug: str, refused: bool) -> None:
    with nodes_with(TABLES[bug]) as nodes:
        (_,), (receiver,) = nodes.senders(1), nodes.receivers(1)
        nodes.landing.refuses = receiver.life
        published([receiver])
        assert waits(nodes, receiver, REASON) is not refused
        assert receiver.failure == (REASON if refused else None)
        assert receiver.transient is refused, "the same request may have memory a moment later"
        receiver.abort()
        until(lambda: nodes.landing.end() or receiver.released)


@pytest.mark.parametrize(
    ("bug", "refused"), [("", False), ("memory-refuses-what-comes-back", True)])
def test_a_request_waits_while_another_one_holds_memory(bug: str, refused: bool) -> None:
    with nodes_with(TABLES[bug]) as nodes:
        (_,), (holder,) = nodes.senders(1), published(nodes.receivers(1))
        until(polls([holder], KVPoll.WAITING_FOR_INPUT))
        (_,), (receiver,) = nodes.senders(2), nodes.receivers(2)
        nodes.landing.refuses = receiver.life
        published([receiver])
        assert waits(nodes, receiver, REASON) is not refused
        for one in (holder, receiver):
            one.abort()
        until(lambda: nodes.landing.end() or (holder.released and receiver.released))


@pytest.mark.parametrize(
    ("bug", "refused"), [("", False), ("memory-refuses-pages-that-settle", True)])
def test_a_request_waits_for_a_page_that_its_owner_has_given_back(bug: str, refused: bool) -> None:
    with nodes_with(TABLES[bug]) as nodes:
        (_,), (owner,) = nodes.senders(1), published(nodes.receivers(1))
        until(polls([owner], KVPoll.WAITING_FOR_INPUT))
        owner.abort()
        until(polls([owner], KVPoll.FAILED))
        assert not owner.released
        (_,), (receiver,) = nodes.senders(2), nodes.receivers(2)
        receiver.publish(tuple(owner.every_page))
        assert waits(nodes, receiver) is not refused
        receiver.abort()
        until(lambda: nodes.landing.end() or (owner.released and receiver.released))


@pytest.mark.parametrize(
    ("bug", "refused"), [("", True), ("memory-waits-for-a-page-given-twice", False)])
def test_a_request_is_refused_a_page_that_was_given_twice(bug: str, refused: bool) -> None:
    """The reason names the owner that keeps its page, and not one whose page comes back."""
    with nodes_with(TABLES[bug]) as nodes:
        _, (settles,) = nodes.senders(1), published(nodes.receivers(1))
        _, (keeps,) = nodes.senders(2), published(nodes.receivers(2))
        until(polls([settles, keeps], KVPoll.WAITING_FOR_INPUT))
        settles.abort()
        until(polls([settles], KVPoll.FAILED))
        (_,), (receiver,) = nodes.senders(3), nodes.receivers(3)
        page, other = min(keeps.every_page), min(settles.every_page)
        receiver.publish([other, page])
        assert waits(nodes, receiver) is not refused
        assert receiver.failure == (f"page {page} belongs to {keeps.life}" if refused else None)
        for one in (keeps, receiver):
            one.abort()
        until(lambda: nodes.landing.end() or (keeps.released and settles.released))
