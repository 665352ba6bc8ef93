"""A request with the address of an earlier run of a prefill rank fails alone."""

from contextlib import ExitStack, closing

from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls
from tests.waiting import until

QUICK = Link(sign_of_life_s=0.05)


def test_the_address_of_an_earlier_run_ends_no_hand_over_with_its_successor() -> None:
    """Seen red with the latest address taken for the right one: all eight fail."""
    fabric = Fabric()
    with ExitStack() as opened:
        decode = DecodeNode("d", SinkDataPath("d", fabric), link=QUICK)
        opened.callback(decode.close)
        with closing(PrefillNode("p", SourceDataPath("p", fabric), link=QUICK)) as first:
            old = first.endpoint
        prefill = PrefillNode("p", SourceDataPath("p", fabric), link=QUICK)
        opened.callback(prefill.close)
        pairs = [(prefill.open(room), decode.open(room, {"p": prefill.endpoint}, pages=[room]))
                 for room in range(8)]
        until(polls([sender for sender, _ in pairs], KVPoll.WAITING_FOR_INPUT))
        stale = decode.open(99, {"p": old}, pages=[99])
        until(polls([stale], KVPoll.FAILED))
        assert stale.failure == (f"lost connection to p: p is at {prefill.endpoint} now, and the "
                                 f"request names {old}")
        for number, (sender, _) in enumerate(pairs):
            sender.send([number])
        until(polls([end for pair in pairs for end in pair], KVPoll.SUCCESS))
        for _, receiver in pairs:
            receiver.close()


def test_a_successor_at_another_address_is_called_when_its_predecessor_has_ended() -> None:
    fabric = Fabric()
    with closing(DecodeNode("d", SinkDataPath("d", fabric), link=QUICK)) as decode:
        for room in range(3):
            with closing(PrefillNode("p", SourceDataPath("p", fabric), link=QUICK)) as prefill:
                sender = prefill.open(room)
                receiver = decode.open(room, {"p": prefill.endpoint}, pages=[room])
                until(polls([sender], KVPoll.WAITING_FOR_INPUT))
                sender.send([room])
                until(polls([receiver], KVPoll.SUCCESS))
                receiver.close()
            until(lambda: decode.lost_peers() == ("p",))
