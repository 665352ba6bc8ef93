"""Peers that end while a process connects to them: `python -m tests.engine.sinks_that_end TRIES`

Each try has a sink and a source of NIXL's library. The sink moves its library on for 0 to 2 ms, and
ends; meanwhile the source begins to write to it. It prints how often a write ended in which way.
"""

import random
import sys
from collections import Counter
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Final

import numpy as np

from pdproto.engine.contract import EngineError, Extent
from pdproto.engine.nixl import NixlTransport
from pdproto.net.hosts import LOOPBACK
from pdproto.runtime.errors import RemoteProtocolError
from tests.waiting import PATIENCE_S, ended

LENGTH: Final = 1 << 20
LIFE_S: Final = 0.002  # of a sink, at most, after the source has begun
GIVE_UP_S: Final = 10.0


def written(life_s: float) -> str:
    """How a write ends whose sink has so long to live."""
    sink, source = NixlTransport(LOOPBACK), NixlTransport(LOOPBACK)
    here, there = np.zeros(LENGTH, np.uint8), np.zeros(LENGTH, np.uint8)
    there_is, here_is = (Extent(memory.ctypes.data, LENGTH) for memory in (there, here))
    sink.register(there_is)
    source.register(here_is)
    described = sink.describe(there_is)
    begins = Event()

    def live() -> None:
        begins.wait(PATIENCE_S)
        ends_at = perf_counter() + life_s
        while perf_counter() < ends_at:
            sink._move_on()
        sink.close()

    thread = Thread(target=live)
    thread.start()
    begins.set()
    try:
        source.meet(described)
        handle = source.begin(described.peer, here_is, there_is.address)
        ends_at = perf_counter() + GIVE_UP_S
        while (well := source.ended(handle)) is None and perf_counter() < ends_at:
            sleep(1e-4)
        return {True: "done", False: "failed", None: "under way"}[well]
    except (EngineError, RemoteProtocolError):
        return "refused"
    finally:
        ended(thread)
        source.close()


def main() -> None:
    chance = random.Random(1)  # noqa: S311 - a delay
    ends = Counter(written(chance.random() * LIFE_S) for _ in range(int(sys.argv[1])))
    print(dict(ends))  # noqa: T201 - this is a command


if __name__ == "__main__":
    main()
