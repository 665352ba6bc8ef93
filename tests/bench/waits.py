"""Waiting for another thread or process, for benches."""

import time
from collections.abc import Callable
from typing import Final

WAIT_S: Final = 60.0
LOOK_S: Final = 0.000_05


def until(holds: Callable[[], bool], look_s: float = LOOK_S) -> None:
    """Wait until this holds. look_s: between two questions."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(look_s)
