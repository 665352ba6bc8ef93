"""SGLang's waiting time-out says how long decode waits for the bytes of a request."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.servers.serving import free_port
from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import Load, Seat, live
from pdproto.sglang.settings import WAITING

UNSENT: Final = 3  # the room whose bytes prefill never sends
WAITS_S: Final = 2


@dataclass(frozen=True, slots=True)
class Withholding:
    """The life of a rank's process: prefill sends no byte of one room."""

    def __call__(self, seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
        from examples.sglang_handoff import ranks  # noqa: PLC0415 - only ranks read SGLang

        send = ranks._send

        def but_one(rank: Any, room: int, request: Any) -> None:
            if room != UNSENT:
                send(rank, room, request)

        setattr(ranks, "_send", but_one)  # noqa: B010 - mypy refuses an assignment
        live(seat, load, pipe)


def test_a_request_whose_bytes_do_not_come_fails_at_both_servers_after_that_time() -> None:
    """And no other. Without the setting it would wait for five minutes."""
    asked = tuple((side, WAITING, str(WAITS_S)) for side in ("prefill", "decode"))
    found = run(Load(requests=8, port=free_port(), environment=asked), seconds=60,
                body=Withholding())
    for name in ("prefill0", "decode0"):
        assert found[name].failed.keys() == {UNSENT}
        assert f"transfer_timeout after {WAITS_S} s" in found[name].failed[UNSENT]
        assert found[name].left == {}
