"""SGLang's heartbeat interval and failures say how long requests wait for a silent peer.

Prefill's process stands still (SIGSTOP) in the midst of requests, and goes on 3.5 s later: longer
than the 2 s that the settings say, and shorter than the 60 s of a server without them.
"""

import os
import signal
import subprocess
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.servers.serving import free_port
from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import Load, Outcome, Seat, live
from pdproto.sglang.settings import FAILURES, INTERVAL

STANDS_AT: Final = 20  # the room with which prefill stops
STANDS_S: Final = 3.5
SILENT_S: Final = 2  # SGLang's least interval, and one failure


@dataclass(frozen=True, slots=True)
class Standing:
    """The life of a rank's process: prefill's stands still for a while."""

    def __call__(self, seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
        if seat.side == "prefill":
            from examples.sglang_handoff import ranks  # noqa: PLC0415 - only ranks read SGLang

            begin = ranks._begin

            def stand(rank: Any, room: int) -> Any:
                if room == STANDS_AT:
                    command = f"sleep {STANDS_S}; kill -CONT {os.getpid()}"
                    with subprocess.Popen(["/bin/sh", "-c", command]):
                        os.kill(os.getpid(), signal.SIGSTOP)
                return begin(rank, room)

            setattr(ranks, "_begin", stand)  # noqa: B010 - mypy refuses an assignment
        live(seat, load, pipe)


def drill(environment: tuple[tuple[str, str, str], ...]) -> dict[str, Outcome]:
    load = Load(requests=30, in_flight=4, port=free_port(), environment=environment)
    return run(load, seconds=60, body=Standing())


def test_requests_fail_when_a_peer_says_nothing_for_the_interval_times_the_failures() -> None:
    found = drill(tuple((side, name, value) for side in ("prefill", "decode")
                        for name, value in ((INTERVAL, str(SILENT_S)), (FAILURES, "1"))))
    failed = found["decode0"].failed
    assert failed.keys() >= {STANDS_AT}
    assert any(f"nothing heard for {SILENT_S} s" in why for why in failed.values()), failed
    assert found["decode0"].succeeded, "before it stood still"


def test_without_them_it_is_waited_for() -> None:
    found = drill(())
    assert found["decode0"].failed == {}
    assert len(found["decode0"].succeeded) == 30
