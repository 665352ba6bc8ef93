"""Processor time of a rank's process, by part: its threads are its parts."""

import threading
from collections.abc import Mapping
from time import clock_gettime, process_time, pthread_getcpuclockid
from typing import Final

SCHEDULER: Final = "scheduler"
NODE: Final = "loop of the node"
GROUP: Final = "loop of the group"
COPIES: Final = "packing and unpacking"
ENGINE: Final = "engine"
OTHER: Final = "other threads"  # of ZeroMQ and of the registry's client
PARTS: Final = (SCHEDULER, NODE, GROUP, COPIES, ENGINE, OTHER)


class ProcessorTime:
    """Processor time since this was made, in seconds. names: of the threads of a part, or their
    beginnings, by part. Threads of other names are `OTHER`.
    """

    def __init__(self, names: Mapping[str, tuple[str, ...]]) -> None:
        self._names: Final = names
        self._process: Final = process_time()
        self._threads: Final = _of_threads()

    def by_part(self) -> dict[str, float]:
        """The seconds of each part, and of the whole process together."""
        seconds = dict.fromkeys(PARTS, 0.0)
        for thread, used in _of_threads().items():
            part = next((part for part, names in self._names.items()
                         if thread.name.startswith(names)), OTHER)
            seconds[part] += used - self._threads.get(thread, 0.0)
        rest = process_time() - self._process - sum(seconds.values())
        seconds[OTHER] += max(0.0, rest)  # of threads that Python does not know
        return seconds


def parts_of(node: str) -> Mapping[str, tuple[str, ...]]:
    """The threads of a drill's rank whose node has this name."""
    return {SCHEDULER: (threading.main_thread().name,), NODE: (f"pdproto-{node}",),
            GROUP: ("pdproto-prefill.",), COPIES: ("pdproto-pack", "pdproto-unpack"),
            ENGINE: ("a source engine", "the sink engine")}


def _of_threads() -> dict[threading.Thread, float]:
    return {thread: clock_gettime(pthread_getcpuclockid(thread.ident))
            for thread in threading.enumerate() if thread.ident is not None}
