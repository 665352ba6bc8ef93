"""The lives of ranks on two hosts.

Rule: nothing here loads an engine's library, for each rank imports this module first. Mooncake
reads MC_USE_IPV6 when it is loaded, and the engine of a rank sets it before.
"""

import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from examples.sglang_handoff.load import Load, Seat, live
from tests.hosts.namespaces import Host


@dataclass(frozen=True, slots=True)
class Apart:
    """The life of a rank's process, on the host of its server, with the keys of the cluster."""

    pair: tuple[Host, Host]
    keys: str

    def __call__(self, seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
        os.environ["PDPROTO_KEYS"] = self.keys
        self.pair[seat.side == "decode"].enter()
        live(seat, load, pipe)


@dataclass(frozen=True, slots=True)
class Slow(Apart):
    """A rank that looks at its requests every 20 ms, so that a drill lasts. sign: the path of a
    file that is there from the first Success on.
    """

    sign: str

    def __call__(self, seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
        from examples.sglang_handoff import ranks  # noqa: PLC0415 - only ranks read SGLang

        note = ranks._note

        def noted(outcome: Any, room: int, end: Any, poll: int) -> None:
            note(outcome, room, end, poll)
            if poll == 4:
                Path(self.sign).touch()

        setattr(ranks, "POLL_S", 0.02)  # noqa: B010 - it is Final
        setattr(ranks, "_note", noted)  # noqa: B010 - mypy refuses an assignment
        Apart.__call__(self, seat, load, pipe)
