"""One end of a hand-over of latent attention: a process of its own, with a pdproto of its own.

    python other_engine_process.py prefill|decode SGLang|vLLM TOKENS

Its pages are those of a server of this engine, of so many tokens each. It writes its endpoint,
reads the name and the endpoint of the peer, hands one room over, and writes how that ended: the
status, the failure, the bytes of its pages in hexadecimal, and its warnings. All lines are JSON.
"""

import json
import logging
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.shares import TpRank
from pdproto.node.link import Link
from pdproto.sglang.pools import Model, kv_component
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.vllm.pools import components

PAGES, LAYERS, VECTOR = 8, 2, 6  # numbers of a token's vector
SENT, TAKEN = [5, 2, 7], [1, 4, 3]
LINK = Link(silent_s=1.5, sign_of_life_s=0.2)
ROOM, SECONDS = 7, 15.0
UNCLAIMED_S = 5.0  # for how long prefill waits for a decode that it does not understand
ENDS = KVPoll.SUCCESS, KVPoll.FAILED


def of_engine(engine: str, tokens: int, layers: list[Any]) -> Any:
    """The component of this memory, as the engine describes it."""
    if engine == "vLLM":
        caches = {f"layers.{number}.attn": torch.from_numpy(layer)
                  for number, layer in enumerate(layers)}
        (found,) = components(caches, [list(caches)], heads=1)
        return found
    return kv_component(SimpleNamespace(
        kv_data_ptrs=[layer.ctypes.data for layer in layers],
        kv_data_lens=[layer.nbytes for layer in layers],
        kv_item_lens=[layer.nbytes // PAGES for layer in layers],
        kv_layer_ids=[], num_draft_entries=0, mla_compression_ratios=None, page_size=tokens,
    ), Model(None, (0, LAYERS)))


def say(*values: object) -> None:
    """Write a line to the test."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


class Told(logging.Handler):
    """Keeps the messages of this process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def waited(handle: Any, *reached: KVPoll) -> KVPoll:
    """Wait for one of these. Returns what it has reached by the end of the wait."""
    end = time.monotonic() + SECONDS
    while (status := handle.poll()) not in reached and time.monotonic() < end:
        time.sleep(0.002)
    found: KVPoll = status
    return found


def main(role: str, engine: str, tokens: int) -> None:
    """Hand one room over."""
    told = Told()
    logging.getLogger("pdproto").addHandler(told)
    made = np.random.default_rng(7).normal(size=(LAYERS, PAGES, tokens, VECTOR))
    layers = list(made.astype(np.float32) if role == "prefill" else np.zeros_like(made, np.float32))
    component = of_engine(engine, tokens, layers)
    node: Any
    if role == "prefill":
        node = PrefillNode(role, SourceItems([component], TpRank(1, 0), TcpSource()), link=LINK,
                           waits={"bootstrap_timeout": UNCLAIMED_S})
    else:
        node = DecodeNode(role, SinkItems([component], TpRank(1, 0), TcpSink()), link=LINK)
    say(node.endpoint)
    peer, endpoint = json.loads(sys.stdin.readline())
    if role == "prefill":
        handle = node.open(ROOM)
        if waited(handle, KVPoll.WAITING_FOR_INPUT, *ENDS) is KVPoll.WAITING_FOR_INPUT:
            handle.send(SENT)
    else:
        handle = node.open(ROOM, {peer: endpoint}, pages=TAKEN)
    status, pages = waited(handle, *ENDS), SENT if role == "prefill" else TAKEN
    say(status.name, str(handle.failure or ""),
        b"".join(layer[pages].tobytes() for layer in layers).hex(), told.lines)
    sys.stdin.readline()  # until the test has heard both
    node.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
