"""What SGLang's scheduler hears of a hand-over on decode, call by call (spec/handoff/scheduler.py).

The hand-over is a real one between two nodes; the manager has as much as a receiver reads.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.base.conn import KVArgs
from sglang.srt.disaggregation.common.conn import KVTransferError, PrefillServerInfo

from pdproto.node.decode.receiver import Addressed, Receiver
from pdproto.sglang.manager import PdprotoKVManager
from pdproto.sglang.parts import RankParts
from pdproto.sglang.prefills import Feed
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.sglang.sender import PdprotoKVSender
from pdproto.sglang.turns import Turns
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import ROW, Pair
from tests.waiting import until

SERVER = PrefillServerInfo(
    attn_tp_size=1, attn_cp_size=1, dp_size=1, pp_size=1, page_size=1, kv_cache_dtype=None,
    follow_bootstrap_room=True)


class Manager:
    """As much of PdprotoKVManager as a receiver uses. slots: the metadata rows; a longer one than
    ROW is refused.
    """

    def __init__(self, pair: Pair, turns: Turns | None = None) -> None:
        (source, _), = pair.sources
        self.decode, self.sink_data_path, self.turns = pair.node, pair.data_path, turns
        self.parts = RankParts(1, 0)
        self.slots: dict[int, bytes] = {}
        self.missing = self.misfit = ""
        self.prompt: bytes | None = None
        self.once = False
        self.held: dict[int, list[Any]] = {}
        self.prefill_info_table = {"127.0.0.1:1": SERVER}
        self.kv_args = KVArgs()
        self.kv_args.state_types = []
        self.supports_host_destination = False
        self.rows = SimpleNamespace(write=self._write)
        feed = Feed({source.name: source.endpoint}, range(1), None,
                    Addressed("127.0.0.1:1", 1, 0))
        self.prefills = SimpleNamespace(feed=lambda *_: self._feed(feed))

    def _feed(self, feed: Feed) -> Feed:
        if self.missing:
            raise LookupError(self.missing)
        return replace(feed, misfit=self.misfit)

    def _write(self, slot: int, row: bytes) -> None:
        if len(row) != len(ROW):
            raise ValueError(f"a metadata row of {len(row)} bytes, but rows here have {len(ROW)}")
        self.slots[slot] = row

    def try_ensure_parallel_info(self, address: str) -> bool:
        return address in self.prefill_info_table

    def name_of(self, _: int) -> str:
        return self.decode.name

    enable_deferred_decode_kv_release = PdprotoKVManager.enable_deferred_decode_kv_release
    is_abort_release_safe = PdprotoKVManager.is_abort_release_safe
    clear_deferred_abort_state = PdprotoKVManager.clear_deferred_abort_state
    let_go = PdprotoKVManager.let_go


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


def receiver_of(manager: Manager, room: int = 1) -> Any:
    told: Any = manager
    return PdprotoKVReceiver(told, "127.0.0.1:1", room)


def send(pair: Pair, room: int, row: bytes = ROW, prompt: bytes | None = None) -> None:
    (node, data_path), = pair.sources
    sender = node.open(room, prompt=prompt)
    until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
    sender.send(data_path.numbering.numbers(0, [1]), metadata=row)


def opened(receiver: Any) -> bool:
    return receiver.receiver is not None


def reason(receiver: Any) -> str:
    with pytest.raises(KVTransferError) as raised:
        receiver.failure_exception()
    return str(raised.value)


def test_success_is_told_when_the_row_is_in_its_slot(pair: Pair) -> None:
    manager = Manager(pair)
    receiver = receiver_of(manager)
    assert (receiver.poll(), receiver.conclude_state) == (KVPoll.BOOTSTRAPPING, None)
    receiver.init(0)
    assert receiver.poll() is KVPoll.WAITING_FOR_INPUT
    receiver.send_metadata(np.array([2]), aux_index=5)
    send(pair, 1)
    heard: list[KVPoll] = []

    def has_succeeded() -> bool:
        heard.append(receiver.poll())
        return heard[-1] is KVPoll.SUCCESS

    until(has_succeeded)
    assert heard == sorted(heard), "it never goes back"
    assert manager.slots == {5: ROW}
    assert receiver.conclude_state is KVPoll.SUCCESS
    receiver.clear()
    assert receiver.poll() is KVPoll.SUCCESS, "an end that SGLang has taken is for good"
    receiver.clear()
    receiver.clear()


def test_a_row_of_another_length_fails_the_request_with_both(pair: Pair) -> None:
    manager = Manager(pair)
    receiver = receiver_of(manager)
    receiver.init(0)
    receiver.send_metadata(np.array([2]), aux_index=5)
    send(pair, 1, b"a longer row")
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert "a metadata row of 12 bytes, but rows here have 3" in reason(receiver)
    assert manager.slots == {}


def test_a_failure_is_told_when_nothing_reaches_the_pages(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[Receiver] = []
    memory = pair.node._node.memory
    free = memory.free_pages
    monkeypatch.setattr(memory, "free_pages", freed.append)  # as while a copy goes on
    receiver = receiver_of(Manager(pair))
    receiver.init(0)
    receiver.send_metadata(np.array([2]))
    receiver.abort()
    until(lambda: bool(freed))
    assert receiver.receiver.poll() is KVPoll.FAILED
    assert receiver.poll() is not KVPoll.FAILED
    pair.node._core.ask(lambda: free(freed[0]))
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert "aborted by the decode scheduler" in reason(receiver)


def test_a_success_that_is_not_committed_fails_when_it_is_aborted(pair: Pair) -> None:
    """SGLang aborts a success whose row it does not take, and waits for a failure (its
    common/conn.py, CommonKVReceiver.abort). Seen red without the row `take_back`.
    """
    receiver = receiver_of(Manager(pair))
    receiver.init(0)
    receiver.send_metadata(np.array([2]), aux_index=5)
    send(pair, 1)
    until(lambda: receiver.poll() is KVPoll.SUCCESS)
    receiver.abort()
    assert receiver.poll() is KVPoll.FAILED
    assert "aborted by the decode scheduler" in reason(receiver)


def test_a_success_that_is_committed_is_not_taken_back(pair: Pair) -> None:
    receiver = receiver_of(Manager(pair))
    receiver.init(0)
    receiver.send_metadata(np.array([2]), aux_index=5)
    send(pair, 1)
    until(lambda: receiver.poll() is KVPoll.SUCCESS)
    receiver.clear()
    receiver.abort()
    assert receiver.poll() is KVPoll.SUCCESS


def test_room_0_is_refused_by_name_at_both_ends(pair: Pair) -> None:
    """SGLang reads 0 in a metadata row as "not written yet". Seen red without the refusals."""
    receiver = receiver_of(Manager(pair), 0)
    assert receiver.poll() is KVPoll.FAILED
    assert "bootstrap_room is 0" in reason(receiver)
    (node, _), = pair.sources
    manager: Any = SimpleNamespace(prefill=node, is_dummy_cp_rank=False, statuses=None, dp_rank=0,
                                   named_rank=None, prompt=None)
    sender = PdprotoKVSender(manager, "", 0)
    until(lambda: sender.poll() is KVPoll.FAILED)
    with pytest.raises(KVTransferError, match="bootstrap_room is 0"):
        sender.failure_exception()


def test_an_abort_before_the_hand_over_is_told_at_once(pair: Pair) -> None:
    receiver = receiver_of(Manager(pair))
    receiver.abort()
    assert receiver.poll() is KVPoll.FAILED
    receiver.init(0)  # too late: it opens nothing
    assert receiver.receiver is None
    assert "aborted by the decode scheduler" in reason(receiver)


def test_a_server_that_is_not_found_fails_the_request_with_its_reason(pair: Pair) -> None:
    manager = Manager(pair)
    manager.missing = "prefill server 127.0.0.1:1: it has no dp3"
    receiver = receiver_of(manager)
    receiver.init(3)
    assert receiver.poll() is KVPoll.FAILED
    receiver.send_metadata(np.array([2]))  # SGLang may not have looked
    assert "it has no dp3" in reason(receiver)


@pytest.mark.parametrize("is_late", [False, True], ids=["prefill waits", "prefill is late"])
@pytest.mark.parametrize("in_turn", [False, True], ids=["alone", "of a group"])
def test_servers_that_do_not_fit_fail_the_request_at_both_at_once_with_the_reason(
    pair: Pair, in_turn: bool, is_late: bool
) -> None:
    """No half waits for its time-out of five minutes."""
    manager = Manager(pair, Turns() if in_turn else None)
    manager.misfit = "prefill server 127.0.0.1:1: page_size is 1 at prefill and 16 at decode"
    (node, _), = pair.sources
    senders = [] if is_late else [node.open(1)]
    receiver = receiver_of(manager)
    receiver.init(0)
    receiver.send_metadata(np.array([2]))  # SGLang does not look before
    until(lambda: receiver.poll() is KVPoll.FAILED)
    senders = senders or [node.open(1)]
    until(lambda: senders[0].poll() is KVPoll.FAILED)
    assert manager.misfit in reason(receiver)
    assert manager.misfit in str(senders[0].failure)


@pytest.mark.parametrize("leave", ["abort", "clear"])
def test_a_request_that_opens_nothing_passes_its_turn(pair: Pair, leave: str) -> None:
    manager = Manager(pair, Turns())
    first, second = receiver_of(manager, 1), receiver_of(manager, 2)
    second.init(0)
    assert second.poll() is KVPoll.WAITING_FOR_INPUT
    assert not opened(second), "its turn has not come"
    getattr(first, leave)()
    assert opened(second)
    second.clear()


def test_pages_that_come_before_its_turn_are_published_in_it(pair: Pair) -> None:
    manager = Manager(pair, Turns())
    first, second = receiver_of(manager, 1), receiver_of(manager, 2)
    second.init(0)
    second.send_metadata(np.array([2]), aux_index=1)
    first.init(0)
    send(pair, 2)
    until(lambda: second.poll() is KVPoll.SUCCESS)
    first.clear()
    second.clear()


def test_items_that_there_are_not_fail_the_request(pair: Pair) -> None:
    receiver = receiver_of(Manager(pair))
    receiver.init(0)
    receiver.send_metadata(np.array([8]))
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert "kv: items 8 to 8, but it has 8" in reason(receiver)
