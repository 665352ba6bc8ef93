"""vLLM's own scheduler with the connector over KV caches on a device that does its work late.

A processor plays the device (pages/host_device.py): the worker asks for the device of vLLM's
tensors, and gets this one.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from pdproto.pages.copies import Computed
from pdproto.pages.host_device import HostDevice
from pdproto.vllm.sending import OfferingWorker
from tests.vllm.engine import Engine, Servers
from tests.vllm.layers import window
from tests.vllm.test_scheduler import check, prompt

NEW = 6
Pair = Callable[..., Servers]


@pytest.fixture
def pair(closing: ExitStack, folder: Path, late: list[Any]) -> Pair:
    del late

    def make(**named: object) -> Servers:
        return Servers(Engine(closing, folder, "kv_producer", **named),  # type: ignore[arg-type]
                       Engine(closing, folder, "kv_consumer", **named))  # type: ignore[arg-type]
    return make


@pytest.mark.parametrize("specs", [(), (window(40),)])
@pytest.mark.parametrize("engine", ["tcp", "shm"])
def test_requests_are_served_from_device_to_device(
    pair: Pair, engine: str, specs: tuple[object, ...]
) -> None:
    servers = pair(specs=specs, extra={"engine": engine})
    for number, tokens in enumerate((31, 64, 100)):
        asked = prompt(tokens, tokens)
        servers.serve(f"r{number}", asked, NEW)
        servers.until(lambda of=f"r{number}": of in servers.decode.ends)  # type: ignore[misc]
        check(servers, f"r{number}", asked)
    servers.until_idle()


@pytest.mark.parametrize("steps", range(4))
def test_a_request_that_is_aborted_while_it_is_loaded_spoils_no_other(
    pair: Pair, steps: int
) -> None:
    servers = pair()
    servers.serve("gone", prompt(1), NEW)
    for _ in range(steps):
        servers.step()
    servers.decode.abort("gone")
    asked = prompt(2)
    servers.serve("r", asked, NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    check(servers, "r", asked)
    servers.until_idle()


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_device_that_fails_for_good_fails_its_requests_and_its_worker_says_so(
    pair: Pair, late: list[Any], caplog: pytest.LogCaptureFixture, side: str
) -> None:
    """vLLM hears of each, its blocks are given back, and the other side stays healthy."""
    servers = pair()
    devices = dict(zip(("prefill", "decode"), late, strict=True))
    servers.serve("before", prompt(1), NEW)
    servers.until(lambda: "before" in servers.decode.ends)
    devices[side].fail("an illegal memory access was encountered")
    for name in ("first", "second"):
        servers.serve(name, prompt(2), NEW)
        servers.until(lambda of=name: of in servers.decode.ends)  # type: ignore[misc]
        assert servers.decode.ends[name] == "error"
    servers.until_idle()
    assert "an illegal memory access was encountered: the device has failed for good: restart " \
           "this process" in caplog.text
    for name, half in (("prefill", servers.prefill.connector.worker._offering),
                       ("decode", servers.decode.connector.worker._loading)):
        assert (half.node.health() is not None) == (name == side)


def test_blocks_are_marked_in_the_thread_and_the_stream_of_vllm(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's loop sends them later; it has no pass in its own stream (property S15)."""
    passes: list[tuple[int, object]] = []
    passed = HostDevice.passed

    def noted(device: HostDevice) -> object:
        passes.append((get_ident(), found := passed(device)))
        return found

    monkeypatch.setattr(HostDevice, "passed", noted)
    servers = pair()
    sent: list[Any] = []
    worker = servers.prefill.connector.worker._offering
    assert isinstance(worker, OfferingWorker)
    push = worker._push

    def noting(sending: Any, *more: Any) -> None:
        sent.append(sending)
        push(sending, *more)

    monkeypatch.setattr(worker, "_push", noting)
    servers.serve("r", prompt(3), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    (sending,) = set(sent)
    assert len(passes) == 2, "of prefill's order, and of the pages that decode opens with"
    assert {thread for thread, _ in passes} == {get_ident()}, "none of a loop's"
    assert isinstance(sending.computed, Computed)
    assert sending.computed.after is passes[0][1]
