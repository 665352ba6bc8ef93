"""One server of a cluster in which two releases meet: a process of its own, with its own pdproto.

    python release.py prefill|decode

It says its endpoint and the folder of its pdproto, and then answers each line of its input,
{"rooms": [first, stop], "peer": [name, endpoint], "aborted": [room, ...]}: how many hand-overs have
ended well, with every byte right, the version that it writes to the peer, and the turns of its loop
that took over 50 ms of processor time. All lines are JSON.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import pdproto
from pdproto import DecodeNode, KVPoll, PrefillNode, SinkPages, SourcePages, until
from pdproto.engine.engines import open_sink, open_source
from pdproto.transport.settings import load

PAGES = 4
SHAPE = (64, 4, 2, 32)  # [page, token, head, dim]
SECONDS = 20.0
ENDS = KVPoll.SUCCESS, KVPoll.FAILED
SENT = np.random.default_rng(7).integers(0, 65536, SHAPE, np.uint16)


def pages_of(room: int) -> list[int]:
    """Prefill's pages of a room. Decode uses the same ones in reverse order."""
    return [(PAGES * room + n) % SHAPE[0] for n in range(PAGES)]


async def sends(node: PrefillNode, room: int, aborted: bool) -> bool:
    """Hand a room over."""
    sender = node.open(room=room)
    if await until(sender, KVPoll.WAITING_FOR_INPUT, *ENDS) is KVPoll.WAITING_FOR_INPUT:
        if aborted:
            sender.abort("the client has left")
        else:
            sender.send(pages_of(room), metadata=b"%d" % room)
    return await until(sender, *ENDS) is KVPoll.SUCCESS


async def receives(node: DecodeNode, pool: Any, room: int, source: tuple[str, str]) -> bool:
    """Take a room, and compare its bytes."""
    ours = pages_of(room)[::-1]
    receiver = node.open(room=room, sources=dict([source]), pages=ours, slot=room % 16)
    ended = await until(receiver, *ENDS)
    if ended is KVPoll.SUCCESS:
        assert (pool[ours] == SENT[pages_of(room)]).all(), f"room {room}: bytes differ"
        assert receiver.metadata == {source[0]: b"%d" % room}, f"room {room}: {receiver.metadata}"
    receiver.close()
    return ended is KVPoll.SUCCESS


def say(*values: object) -> None:
    """Write a line to the test."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def serve(role: str) -> None:
    """Answer the lines of the input."""
    pool = np.zeros_like(SENT)
    spans = load(os.environ).spans(role)
    node: Any
    if role == "prefill":
        node = PrefillNode(role, SourcePages([SENT], open_source("tcp")), trace=spans)
    else:
        node = DecodeNode(role, SinkPages({"prefill": [pool]}, open_sink("tcp")), trace=spans)
    say(node.endpoint, str(Path(pdproto.__file__).parent))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        rooms, aborted = range(*order["rooms"]), order["aborted"]
        ended = await asyncio.wait_for(asyncio.gather(*(
            sends(node, room, room in aborted) if role == "prefill"
            else receives(node, pool, room, tuple(order["peer"])) for room in rooms)), SECONDS)
        peer = node._core.peers[order["peer"][0]]
        say(sum(ended), peer.version, node.metrics.read()["slow_turns"])
    node.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
