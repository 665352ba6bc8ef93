"""A decode process that stands still for so long that prefill counts it as gone, and goes on."""

from multiprocessing.connection import Connection
from typing import Final

import pytest

from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode
from tests.node.data_paths import Fabric, SinkDataPath, cluster, polls
from tests.node.processes import suspend, victim
from tests.waiting import PATIENCE_S, until

LINK: Final = Link(sign_of_life_s=0.1, silent_s=1.0, grace_s=600.0)
ROOM: Final = 7


def decode_process(pipe: Connection) -> None:
    """A decode rank with one request, which says how that has failed."""
    source = {"p0": pipe.recv()}
    node = DecodeNode("d0", SinkDataPath("d0", Fabric()), link=LINK)
    receiver = node.open(ROOM, source, pages=[1, 2])
    until(polls([receiver], KVPoll.FAILED))
    pipe.send(receiver.failure)
    pipe.recv()  # until the test ends


@pytest.mark.parametrize("comes", ["before", "never"])
def test_decode_hears_at_once_of_what_has_failed_meanwhile(comes: str) -> None:
    """No clock of decode ends its request: the shortest runs for minutes."""
    with cluster(sinks=0, link=LINK) as nodes:
        (prefill,) = nodes.prefills
        with victim(decode_process) as (process, decode):
            decode.send(prefill.endpoint)
            senders = nodes.senders(ROOM) if comes == "before" else []
            until(lambda: prefill._node.lives)
            until(polls(senders, KVPoll.WAITING_FOR_INPUT))
            suspend(process)
            until(lambda: prefill.lost_peers() == ("d0",))
            until(polls(senders, KVPoll.FAILED))
            process.resume()
            assert decode.poll(PATIENCE_S)
            assert decode.recv() == "p0: lost connection to d0: nothing heard for 1 s"
