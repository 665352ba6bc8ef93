"""A prefill rank whose environment injects faults, in a process of its own."""

import os
from multiprocessing.connection import Connection

from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import PrefillNode
from pdproto.transport.operator_port import serve_operator
from pdproto.transport.settings import load
from tests.engine.engines import ENGINES
from tests.node.data_paths import ENDED, polls
from tests.transport.victim import pools
from tests.waiting import until


def faulty_source(engine: str, pipe: Connection, faults: str, token: str) -> None:
    """Hands over a page for each room that it is told."""
    os.environ |= {"PDPROTO_FAULTS": faults, "PDPROTO_FAULTS_TOKEN": token,
                   "PDPROTO_OPERATOR": "127.0.0.1:0"}
    settings = load(os.environ)
    node = PrefillNode("p0", SourcePages(pools(1), ENGINES[engine].source()), link=settings.link())
    port = serve_operator(node, settings)
    assert port is not None
    pipe.send((node.endpoint, port.host, port.port))
    while True:
        sender = node.open(pipe.recv())
        until(polls([sender], KVPoll.WAITING_FOR_INPUT, *ENDED))
        if sender.poll() is KVPoll.WAITING_FOR_INPUT:
            sender.send(range(1))
        until(polls([sender], *ENDED))
