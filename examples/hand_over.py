"""Two nodes in one process hand over two pages through shared memory.

python examples/hand_over.py
"""

import asyncio

import numpy as np

from pdproto import DecodeNode, KVPoll, PrefillNode, SinkPages, SourcePages, until
from pdproto.engine.engines import open_sink, open_source

theirs = np.random.default_rng(0).integers(0, 65536, (64, 16, 8, 128), np.uint16)
ours = np.zeros_like(theirs)  # [page, token, head, dim]


async def main() -> None:
    """Send pages 40 and 2 of prefill into pages 5 and 6 of decode."""
    prefill = PrefillNode("prefill", SourcePages([theirs], open_source("shm")))
    decode = DecodeNode("decode", SinkPages({"prefill": [ours]}, open_sink("shm")))
    sender = prefill.open(room=7)
    receiver = decode.open(room=7, sources={"prefill": prefill.endpoint}, pages=[5, 6], slot=0)
    await until(sender, KVPoll.WAITING_FOR_INPUT)
    sender.send([40, 2], metadata=b"the first token")
    await until(receiver, KVPoll.SUCCESS)  # decode has compared a digest of each page
    print("every byte is the same:", bool((ours[[5, 6]] == theirs[[40, 2]]).all()))
    receiver.close()
    prefill.close()
    decode.close()


asyncio.run(main())
