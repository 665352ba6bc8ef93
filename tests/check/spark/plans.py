"""Faults inside Spark's workers, for the tests: they come before a task expands its states."""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdproto.check.spark.tasks import Reach
from pdproto.ground.program import Program


@dataclass(frozen=True, slots=True)
class Killed:
    """Kill the process of the task, as many times as there are files in a folder."""

    program: Program
    folder: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        taken = list(batches)  # the task has begun, and has had its states
        for file in Path(self.folder).iterdir():
            try:
                file.unlink()
            except FileNotFoundError:
                continue  # another task has taken it
            os.kill(os.getpid(), signal.SIGKILL)
        yield from Reach(self.program)(taken)
