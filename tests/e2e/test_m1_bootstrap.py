"""A bootstrap that fails, between real nodes and pages (MISSION rows M1.1, M1.2 and M1.3)."""

import socket

from pdproto.engine.engines import open_source
from pdproto.node.link import Link
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.e2e.pairs import NEVER, ends, layers, until
from tests.node.data_paths import OWN_HOST, has_spoken

NOT_LONG = {"bootstrap_timeout": 0.5}
LONG = {"bootstrap_timeout": 60.0}


def free_endpoint() -> str:
    with socket.create_server((OWN_HOST, 0)) as listening:
        return f"tcp://{OWN_HOST}:{listening.getsockname()[1]}"


def reached(decode: DecodeNode, name: str) -> bool:
    return name not in decode.lost_peers()


def test_m1_1_m1_2_a_failed_hand_over_stays_failed_when_the_rank_comes_up_later() -> None:
    """One of two ranks cannot be reached. Later it can; only another hand-over has use of that."""
    with ends(waits=NOT_LONG, of_sources=LONG) as nodes:
        # Who has spoken once is not blamed for silence, however late it answers this time.
        (first,), met = nodes.senders(0), nodes.receiver(0)
        until(lambda: has_spoken(nodes.decode, "p0"))
        met.abort("enough")
        until(lambda: {met.poll(), first.poll()} == {KVPoll.FAILED})
        where = free_endpoint()
        both = {"p0": nodes.prefills[0].endpoint, "p1": where}
        (sender,) = nodes.senders(1)
        receiver = nodes.decode.open(1, both)
        receiver.publish(range(4))
        until(lambda: receiver.poll() is KVPoll.FAILED)
        assert "nothing was heard of p1" in (receiver.failure or "")
        until(lambda: sender.poll() is KVPoll.FAILED)  # M1.3: one that is missing fails the whole
        assert (sender.failure or "").startswith("d: ")

        late = PrefillNode("p1", SourcePages(layers(), open_source("shm")), waits=NEVER | LONG,
                           link=Link(bind=where))
        nodes.prefills.append(late)
        early_bird = late.open(1)
        again = nodes.decode.open(1, both)  # another life of the room
        until(lambda: early_bird.poll() is not KVPoll.BOOTSTRAPPING or reached(nodes.decode, "p1"))
        assert (receiver.poll(), sender.poll()) == (KVPoll.FAILED, KVPoll.FAILED)
        again.abort("enough")
        until(lambda: again.poll() is KVPoll.FAILED and early_bird.poll() is KVPoll.FAILED)
        assert (receiver.poll(), sender.poll()) == (KVPoll.FAILED, KVPoll.FAILED)
