"""Ranks of one vLLM server that sleep between two looks for a message of each other.

vLLM's ranks look without a pause (`sched_yield`) for a second after each message, and its engine
steps without a pause while a request waits for its connector. On two cores, two such ranks left
the other server without a core for 90 s.
"""

import time
from typing import Final

from vllm.distributed.device_communicators import shm_broadcast

PAUSE_S: Final = 100e-6


def pause() -> None:
    """Have this process sleep instead."""
    shm_broadcast.sched_yield = lambda: time.sleep(PAUSE_S)
