"""What a client of SGLang's HTTP ports may write into a request: that request fails alone, at both
servers, and no call of SGLang's scheduler raises, which would end the server.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.common.conn import KVTransferError
from sglang.srt.disaggregation.decode import _bootstrap_addr
from sglang.srt.disaggregation.pp_consensus_store import PPConsensusStore

from examples.sglang_handoff.request import request_of
from pdproto.items.shares import TpRank
from pdproto.registry import lookups
from pdproto.registry.lookups import Lookups
from pdproto.runtime.limits import REASON_MAX
from pdproto.sglang.prefills import Kind, Prefills
from pdproto.sglang.prompts import note_request
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.sglang.sender import PdprotoKVSender
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.property.profiles import NIGHTLY
from tests.sglang.schedulers import Stages, prefill_manager
from tests.sglang.test_receiver import Manager, receiver_of
from tests.tiers import examples
from tests.waiting import until

ROOMS: Final = (None, -1, -(2**63), 0, 2**63, 2**64 - 1, 2**70, 1.0, True, "7")
HOSTS: Final = ("", "a b", "cannot read \udc80", "a" * 100_000, "a\0b", "[::1", "::1", "http://x/",
                "x:1:2", "one@127.0.0.1", "127.0.0.1/?", "-", "%00", "\n")
PORTS: Final = (None, 0, -1, 99_999, 2**70)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


def reason(half: Any) -> str:
    """Why it has failed."""
    until(lambda: half.poll() is KVPoll.FAILED)
    with pytest.raises(KVTransferError) as error:
        half.failure_exception()
    told = str(error.value)
    assert len(told.encode()) <= REASON_MAX
    return told


def sender_of(pair: Pair, room: Any, rank: Any = None, statuses: Any = None) -> Any:
    """As SGLang's queue makes it."""
    (node, _), = pair.sources
    manager = prefill_manager(node, statuses=statuses)
    one = request_of(5, [0], "prefill")
    one.disagg_prefill_dp_rank = rank
    note_request(SimpleNamespace(kv_manager=manager), one)
    return PdprotoKVSender(manager, "", room, rank is not None)


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_room_that_cannot_be_fails_its_request_alone(pair: Pair, room: Any) -> None:
    """Seen red: ValueError in SGLang's scheduler, at both servers."""
    receiver = receiver_of(Manager(pair), room)
    receiver.init(0)
    for half in (sender_of(pair, room), receiver):
        assert "bootstrap_room" in reason(half)


@pytest.mark.parametrize("room", [-1, 2**70])
def test_a_room_that_cannot_be_fails_on_each_stage_of_a_pipeline(pair: Pair, room: int) -> None:
    """Seen red with the room as the key of its status: SGLang's store cannot write 2**70."""
    group = Stages()
    stores = [PPConsensusStore(2, stage, group) for stage in (0, 1)]
    try:
        first, _ = (sender_of(pair, room, statuses=store) for store in stores)
        until(lambda: first.poll_pp_consensus() is KVPoll.FAILED)
    finally:
        for store in stores:
            store.close()


@pytest.mark.parametrize("rank", [-1, 2**63, 2**70, 1.0, "0"], ids=str)
def test_a_rank_that_cannot_be_fails_its_request_alone(pair: Pair, rank: Any) -> None:
    """Seen red: ValueError in prefill's scheduler."""
    assert "disagg_prefill_dp_rank" in reason(sender_of(pair, 5, rank))


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: ascii(host[:12]))
def test_an_address_that_cannot_be_is_told_in_a_reason_that_can_be_written(
    pair: Pair, host: str
) -> None:
    """Seen red with the address as it came: a reason of 100,000 characters, and one that is no
    UTF-8.
    """
    prefills = Prefills(Kind(None, None, None), TpRank(1, 0), TpRank(1, 0), lambda: ())
    manager: Any = Manager(pair)
    manager.prefills = prefills
    for port in PORTS:
        asked: Any = request_of(5, [0], "decode")
        asked.bootstrap_host, asked.bootstrap_port = host, port
        address = _bootstrap_addr(asked)
        assert not prefills.ensure(address)
        receiver = receiver_of(manager, 5)
        receiver.bootstrap_addr = address
        receiver.init(0)
        assert "prefill server" in reason(receiver)


def test_the_answers_of_ever_new_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "SERVERS_MAX", 3)
    asked = Lookups()
    for number in range(8):
        address = f"no address {number}"
        until(lambda: _is_answered(asked, address))  # noqa: B023 - called here
    assert len(asked._found) == 3


LEAVES: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(0, 2**64), st.floats(), st.text(),
    st.sampled_from((*ROOMS, *HOSTS, *PORTS)))
JSON: Final = st.one_of(LEAVES, st.lists(LEAVES, max_size=3),
                        st.dictionaries(st.text(max_size=3), LEAVES, max_size=3))
TEXT: Final = st.one_of(st.text(max_size=300), st.sampled_from(HOSTS))
FIELDS: Final = ("bootstrap_room", "bootstrap_host", "bootstrap_port", "disagg_prefill_dp_rank")


@settings(max_examples=20_000 if NIGHTLY else examples(40, 300), deadline=None,
          suppress_health_check=list(HealthCheck))
@given(st.fixed_dictionaries(dict.fromkeys(FIELDS, JSON)), TEXT)
def test_drawn_fields_of_a_body_fail_their_request_alone(
    pair: Pair, fields: dict[str, Any], host: str
) -> None:
    """Each field with any value of JSON, and with text for the host, which SGLang requires.

    Seen red: a room of 100,000 characters, and one that is no UTF-8, were in the reason as they
    came, and one without a hash raised in `clear`, which would have ended the server.
    """
    room, _, port, rank = fields.values()
    prefills = Prefills(Kind(None, None, None), TpRank(1, 0), TpRank(1, 0), lambda: ())
    manager: Any = Manager(pair)
    manager.prefills = prefills
    for asked in (host, fields["bootstrap_host"]):
        address = f"{asked}:{port}"
        prefills.ensure(address)
        receiver: Any = PdprotoKVReceiver(manager, address, room)
        receiver.init(0)
        sender = sender_of(pair, room, rank)
        for half in (sender, receiver):
            assert half.poll() in KVPoll
            half.abort()
            assert reason(half)
            half.clear()


def _is_answered(asked: Lookups, address: str) -> bool:
    try:
        return asked.of(address) is not None
    except LookupError:
        return True
