"""A request that another rank of decode has failed: SGLang's own transfer queue keeps its pages
until no write can reach them, and its scheduler waits for nothing.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation import decode
from sglang.srt.disaggregation.base.conn import KVTransferDestination as Destination
from sglang.srt.disaggregation.decode import DecodeRequest
from sglang.srt.disaggregation.utils import KVPoll as TheirPoll

from examples.sglang_handoff.request import request_of
from pdproto.node.decode.receiver import Receiver
from pdproto.sglang.plugin import _note_tokens
from tests.items.test_data_path import Pair
from tests.items.test_host_items import HostPair
from tests.sglang.releases import of_newest
from tests.sglang.schedulers import scheduler_of
from tests.sglang.test_receiver import Manager, receiver_of
from tests.waiting import until


class Ranks:
    """Decode's transfer queue on one rank of several. failed: whether another rank has failed."""

    def __init__(
        self, pair: Pair, closing: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.failed = False
        self.given_back: list[Any] = []
        self.answered: list[HTTPStatus] = []
        monkeypatch.setattr(decode, "poll_and_all_reduce", self._polls)
        monkeypatch.setattr(decode, "all_reduce_flags", lambda flags, **_: flags,
                            raising=False)  # 0.5.22 has none
        monkeypatch.setattr(decode, "prepare_abort",
                            lambda *_, status_code: self.answered.append(status_code))
        for name in ("release_kv_cache", "discard_kv_cache_backup"):
            monkeypatch.setattr(decode, name, raising=False,  # 0.5.22 has no host pool
                                value=lambda request, *_, **__: self.given_back.append(request))
        self.manager: Any = Manager(pair)
        self.receiver = receiver_of(self.manager)
        server = scheduler_of(closing, "decode", self.manager, folder)
        self.prealloc = server.disagg_decode_prealloc_queue
        self.queue = server.disagg_decode_transfer_queue
        self.queue.enable_deferred_kv_release = True

    def _polls(self, pollers: Any, *_: Any, **__: Any) -> list[int]:
        polls = [int(poller.poll()) for poller in pollers]
        return [TheirPoll.Failed] * len(polls) if self.failed else polls

    def publish(self, *, host: bool = False) -> None:
        """Put the request into the queue, as SGLang's _send_kv_metadata does. host: its pages are
        those of the host pool.
        """
        self.queue.enable_host_receive = host
        waiting = DecodeRequest(request_of(1, [1], "decode"), self.receiver,
                                metadata_buffer_index=0)
        waiting.host_staged = host  # 0.5.22 has no such field
        _note_tokens(self.prealloc, waiting, np.array([2]))
        self.receiver.init(0)
        self.receiver.send_metadata(
            np.array([2]), destination=Destination.HOST if host else Destination.DEVICE)
        self.queue.queue.append(waiting)

    def turn(self) -> None:
        """An iteration of the scheduler."""
        self.queue.resolve_deferred_releases()
        self.queue.pop_transferred()

    def given_back_in_a_turn(self) -> bool:
        self.turn()
        return bool(self.given_back)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield HostPair(closing, [range(4)])


@pytest.fixture
def ranks(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranks]:
    with ExitStack() as closing:
        yield Ranks(pair, closing, tmp_path, monkeypatch)


@pytest.mark.parametrize("host", [False, pytest.param(True, marks=of_newest)])
def test_pages_of_a_request_that_another_rank_has_failed_are_kept_while_a_write_may_come(
    pair: Pair, ranks: Ranks, monkeypatch: pytest.MonkeyPatch, host: bool
) -> None:
    """Seen red with the wait in `failure_exception` (the scheduler stands still for 10 s, and then
    gives the pages back), and with `enable_deferred_decode_kv_release` of the base class (they are
    given back at once). host: with an `is_abort_release_safe` that says yes, and without `let_go`.
    """
    freed: list[Receiver] = []
    memory = pair.node._node.memory
    free, may_free = memory.free_pages, Event()
    monkeypatch.setattr(memory, "free_pages",
                        lambda one: free(one) if may_free.is_set() else freed.append(one))
    ranks.publish(host=host)
    ranks.failed = True
    ranks.turn()
    assert ranks.answered == [HTTPStatus.INTERNAL_SERVER_ERROR], "its client has heard already"
    until(lambda: bool(freed))  # the copy goes on
    for _ in range(3):
        ranks.turn()
    assert (ranks.given_back, ranks.queue.num_pending_deferred_releases()) == ([], 1)
    assert ranks.queue.deferred_kv_release_timeout == inf, "no clock gives them back"
    may_free.set()
    pair.node._core.ask(lambda: free(freed[0]))
    until(ranks.given_back_in_a_turn)
    assert (ranks.manager.held, ranks.queue.num_pending_deferred_releases()) == ({}, 0)
    until(lambda: not pair.node.metrics.read()["num_remembered_lives"])


@pytest.mark.parametrize("host", [False, pytest.param(True, marks=of_newest)])
def test_pages_that_no_write_can_reach_are_given_back_at_once(ranks: Ranks, host: bool) -> None:
    ranks.publish(host=host)
    ranks.receiver.abort()
    until(ranks.given_back_in_a_turn)
    assert (ranks.manager.held, ranks.queue.num_pending_deferred_releases()) == ({}, 0)


def test_a_rank_that_keeps_pages_for_another_alone_asks_nothing(ranks: Ranks) -> None:
    """Its own hand-over has ended, or it has had none."""
    assert ranks.manager.is_abort_release_safe(7, 0)
    ranks.manager.clear_deferred_abort_state(7)
