"""SGLang's own classes over pools on a device that does its work late (pages/host_device.py).

A processor plays the device: the manager asks for the device of SGLang's flag, and gets this one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import torch
from sglang.srt.disaggregation import prefill

from examples.servers.serving import free_port
from examples.sglang_handoff.__main__ import summary
from examples.sglang_handoff.cluster import run
from examples.sglang_handoff.load import Load, Seat, live
from examples.sglang_handoff.request import request_of
from pdproto.items.components import Component, Numbering
from pdproto.pages import devices
from pdproto.pages.copies import Computed
from pdproto.pages.host_device import HostDevice
from pdproto.sglang.parts import RankParts
from pdproto.sglang.sender import PdprotoKVSender
from tests.sglang.test_drill import REQUESTS


@dataclass(frozen=True, slots=True)
class OnDevice:
    """The life of a rank's process whose pools are on a device, where passes run late, too."""

    def __call__(self, seat: Seat, load: Load, pipe: "Connection[Any, Any]") -> None:
        from examples.sglang_handoff.model import Filled  # noqa: PLC0415 - only ranks read SGLang

        device = HostDevice(seat.number)
        devices.KINDS["cpu"] = lambda _: device
        compute: Callable[..., None] = Filled.fill

        def later(filled: Filled, load: Load, room: int, items: list[int]) -> None:
            device.compute(lambda: compute(filled, load, room, items))

        setattr(Filled, "fill", later)  # noqa: B010 - mypy refuses an assignment
        live(seat, load, pipe)


def drill(**asked: Any) -> dict[str, Any]:
    load = Load(**{"requests": REQUESTS, "port": free_port()} | asked)
    found = summary(load, run(load, seconds=60, body=OnDevice()))
    assert found["wrong"] == []
    assert found["left"] == {}
    return found


CASES: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": 3},
    "shared memory": {"chunks": 3, "engine": "shm"},
    "large pages": {"page_bytes": 32_768, "prefix": 2},
    "states": {"states": ("swa", "mamba"), "prefix": 2, "chunks": 2},
    "latent states": {"states": ("dsa",), "latent": True},
    "drafts": {"drafts": ("prefill", "decode"), "chunks": 2},
    "pipeline": {"pp": 2, "chunks": 3},
    "wider decode": {"decode_tp": 2, "states": ("swa",)},
    "wider prefill": {"prefill_tp": 2, "prefix": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_every_byte_is_right_from_device_to_device(case: str) -> None:
    assert drill(**CASES[case])["succeeded"] == REQUESTS


def test_either_side_aborts_while_devices_work() -> None:
    found = drill(abort_every=4, chunks=2)
    assert found["succeeded"] >= REQUESTS * 3 // 4
    assert 0 < found["failed"] <= REQUESTS // 4


class Sent:
    """A hand-over that notes its chunks."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []

    def send(self, items: Any, *, last: bool, metadata: bytes) -> None:
        assert not last
        assert metadata == b""
        self.chunks.append(items)


class Event:
    """torch.cuda.Event, in SGLang's code for a prefix that an earlier pass computes."""

    def record(self, stream: object) -> None:
        self.stream = stream


def test_a_prefix_that_an_earlier_pass_computes_is_read_behind_that_pass(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang's own scheduler code gives the sender the event, and then calls `send`."""
    monkeypatch.setattr(torch.cuda, "Event", Event)
    component = Component("kv", (np.zeros((8, 16), np.uint8),), (0,))
    sender = PdprotoKVSender.__new__(PdprotoKVSender)
    sender.kv_mgr = SimpleNamespace(  # type: ignore[assignment]
        item_bytes=[16], parts=RankParts(16, 0),
        source_data_path=SimpleNamespace(numbering=Numbering([component])))
    sender._began, sender._sent, sender._pages, sender._bytes, sender._prefix = None, 0, 8, 0, 0
    handed = sender.sender = Sent()  # type: ignore[assignment]
    request = request_of(1, range(48), "prefill")
    request.disagg_kv_sender, request.prefix_len = sender, 32
    stream = object()
    scheduler: Any = SimpleNamespace(
        enable_staging=False, enable_overlap=True, forward_stream=stream,
        token_to_kv_pool_allocator=SimpleNamespace(page_size=16),
        send_kv_chunk=lambda req, **_: req.disagg_kv_sender.send(np.array([3, 5], np.int32)))
    prefill.SchedulerDisaggregationPrefillMixin.maybe_send_cached_prefix_chunk(scheduler, request)
    sender.send(np.array([6], np.int32))
    (early, late) = handed.chunks
    assert isinstance(early, Computed)
    assert tuple(early) == (3, 5)
    assert early.after.stream is stream  # type: ignore[attr-defined]
    assert not isinstance(late, Computed), "the event is of one chunk only"
