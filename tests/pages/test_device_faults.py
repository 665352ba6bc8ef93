"""Faults of a device: each fails its hand-overs with a reason that names the device and what to do,
and hand-overs go on when the fault is mended.
"""

import gc
import mmap
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from pdproto.engine.memory import HostPiece
from pdproto.kernels.chunk import register
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.pages.copies import Computed
from pdproto.pages.host_copies import HostCopies
from pdproto.spec.handoff.poll import KVPoll
from tests.e2e.pairs import ENDED, until
from tests.pages.test_device_copies import Pair, pair

torch = pytest.importorskip("torch")

from pdproto.pages.device_copies import DeviceCopies  # noqa: E402 - needs torch
from pdproto.pages.host_device import NEVER, HostDevice, HostStream  # noqa: E402 - needs torch
from pdproto.pages.tensors import host_tensor  # noqa: E402 - needs torch

Send = Callable[[Sender], None]


PAGES = range(16)  # more than were made room for at start


def plainly(sender: Sender) -> None:
    sender.send(list(PAGES))


def hand_over(both: Pair, room: int, send: Send = plainly) -> str:
    """Returns why it failed; "" if it did not. Both sides end it, and free its pages."""
    sender = both.prefill.open(room)
    receiver = both.decode.open(room, {"p": both.prefill.endpoint})
    receiver.publish(list(PAGES))
    until(lambda: sender.poll() in (KVPoll.WAITING_FOR_INPUT, *ENDED))
    if sender.poll() not in ENDED:
        send(sender)
    until(lambda: sender.poll() in ENDED and receiver.poll() in ENDED)
    reasons = f"{sender.failure or ''}\n{receiver.failure or ''}".strip()
    receiver.close()
    until(lambda: sender.released and receiver.released)
    return reasons


def never_recorded(sender: Sender) -> None:
    sender.send(Computed.by(PAGES, NEVER))


def no_device_memory_there(both: Pair) -> None:
    both.there.bytes_max = 0


def no_device_memory_here(both: Pair) -> None:
    both.here.bytes_max = 0


def no_pinned_memory_there(both: Pair) -> None:
    both.there.pinned_max = 0


def no_pinned_memory_here(both: Pair) -> None:
    both.here.pinned_max = 0


def no_access_there(both: Pair) -> None:
    both.there.has_access = False


def no_cache_of_kernels(both: Pair) -> None:
    both.there.faults["run"] = PermissionError(13, "Permission denied", "/kept/triton/cache")


STAGING = r"the late device has no [\d,]+ bytes for staging: .*--mem-fraction-static of SGLang"
PINNED = r"the late device pins no [\d,]+ bytes of host memory: lower the setting staging_bytes"


@pytest.mark.parametrize(("engine", "fault", "why"), [
    ("shm", no_device_memory_there, STAGING),
    ("shm", no_device_memory_here, STAGING),
    ("shm", no_pinned_memory_there, PINNED),
    ("shm", no_pinned_memory_here, r"staging memory of \d+ bytes: " + PINNED),
    ("shm", no_cache_of_kernels,
     "the late device: a kernel cannot be compiled: .*/kept/triton/cache.*: set TRITON_CACHE_DIR "
     "to a folder"),
    ("cuda-ipc", no_device_memory_here, r"lease: no staging memory of \d+ bytes: " + STAGING),
    ("cuda-ipc", no_access_there,
     r"the late device does not reach the memory of process \d+: no access: it must be a GPU of "
     r"this host with access to the other one \(nvidia-smi topo -p2p r\); or use engine shm"),
])
def test_a_fault_is_told_with_the_setting_and_is_over_when_it_is_mended(
    engine: str, fault: Callable[[Pair], None], why: str
) -> None:
    with pair(engine=engine) as both:
        fault(both)
        told = hand_over(both, 1)
        assert re.search(why, told), told
        for device in (both.there, both.here):
            device.bytes_max = device.pinned_max = 1 << 62
            device.has_access = True
        assert hand_over(both, 2) == ""


CALLS = {("shm", "there"): ("memory", "host_memory", "wait", "run", "copy", "record", "query"),
         ("shm", "here"): ("memory", "host_memory", "pin", "run", "copy", "record", "query"),
         ("cuda-ipc", "there"): ("memory", "host_memory", "map", "copy"),
         ("cuda-ipc", "here"): ("export", "host_memory", "run")}
EACH_CALL = pytest.mark.parametrize(
    ("engine", "side", "call"), [(*at, call) for at, calls in CALLS.items() for call in calls])


@EACH_CALL
def test_a_call_that_is_refused_once_fails_one_hand_over_at_most(
    engine: str, side: str, call: str
) -> None:
    """An event that a device refuses to record is recorded later: then the hand-over goes on."""
    with pair(engine=engine) as both:
        kind = OSError if call == "pin" else RuntimeError
        device, name = getattr(both, side), "the late device"
        device.faults[call] = kind(f"{name}: too many resources")
        told = hand_over(both, 1)
        assert not device.faults, "it was not called"
        assert ("the late device: too many resources" in told) or (call, told) == ("record", "")
        assert hand_over(both, 2) == ""
        assert both.prefill.stalled() is None
        assert both.decode.stalled() is None


@EACH_CALL
def test_a_device_that_fails_at_any_call_makes_its_process_unhealthy(
    engine: str, side: str, call: str
) -> None:
    with pair(engine=engine) as both:
        node, device = (both.prefill if side == "there" else both.decode), getattr(both, side)
        device.fails_at = call
        for room in (1, 2):
            assert "the late device" in (told := hand_over(both, room))
            assert "illegal memory access was encountered: the device has failed for good: " \
                   "restart this process" in told
        assert node.stalled() is not None


def refused_in_part(both: Pair, device: HostDevice, call: str) -> tuple[Sender, Receiver]:
    """A hand-over whose device has begun a kernel, stands still, and refuses the next call."""
    assert hand_over(both, 1) == ""
    sender, receiver = both.begin(2, list(PAGES))
    device.stands_still = True
    runs = device.calls["run"]
    device.faults[call] = RuntimeError("no more work")
    sender.send(list(PAGES))
    until(lambda: device.calls["run"] > runs and not device.faults)
    return sender, receiver


@pytest.mark.parametrize("call", ["copy", "query"])
def test_pages_are_read_until_a_chunk_has_ended_of_which_a_call_was_refused(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel was taken. The copy behind it was not, or nobody learns whether it has ended."""
    monkeypatch.setattr(DeviceCopies, "over_link_max", 0)
    with pair(engine="tcp") as both:
        sender, _ = refused_in_part(both, both.there, call)
        time.sleep(0.2)
        assert sender.poll() is KVPoll.TRANSFERRING
        assert not sender.released
        both.there.stands_still = False
        until(lambda: sender.released)
        assert "the late device: no more work" in (sender.failure or "")


@pytest.mark.parametrize("call", ["record", "query"])
def test_pages_are_written_until_a_chunk_has_ended_of_which_a_call_was_refused(call: str) -> None:
    with pair() as both:
        _, receiver = refused_in_part(both, both.here, call)
        receiver.abort()
        time.sleep(0.2)
        assert not receiver.released
        both.here.stands_still = False
        until(lambda: receiver.released)


def test_pages_are_written_by_a_chunk_after_another_one_was_refused() -> None:
    """Two chunks of a source. The device refuses the second, and is still writing the first."""
    with pair() as both:
        assert hand_over(both, 1) == ""
        sender, receiver = both.begin(2, [3, 4])
        both.here.stands_still = True
        runs, copies = both.here.calls["run"], both.here.calls["copy"]
        run = HostStream.run

        def run_once(self: HostStream, work: Any) -> None:
            if self._device is both.here and both.here.calls["run"] > runs:
                raise RuntimeError("no more work")
            run(self, work)

        with mock.patch.object(HostStream, "run", run_once):
            sender.send([0], last=False)
            sender.send([1])
            until(lambda: both.here.calls["copy"] == copies + 2)
            time.sleep(0.2)
        assert not receiver.released
        assert receiver.poll() is not KVPoll.FAILED
        both.here.stands_still = False
        until(lambda: receiver.released)
        assert "the late device: no more work" in (receiver.failure or "")


def test_pools_of_another_device_are_refused() -> None:
    layout = register([torch.zeros((4, 1, 1, 16), dtype=torch.uint8)])
    elsewhere = replace(layout, device="cuda:1")
    with pytest.raises(ValueError, match="pools on cuda:1 and on cpu: one data path copies"):
        DeviceCopies(HostDevice(), "cpu").warm(elsewhere)
    with pytest.raises(ValueError, match="pools are on cuda:1"):
        HostCopies().warm(elsewhere)


def test_an_event_that_was_never_recorded_is_refused() -> None:
    """It says that it has happened, so the pages would be read before they are computed."""
    with pair() as both:
        told = hand_over(both, 1, never_recorded)
        assert "the late device: the event of the pass was never recorded: record it behind" in told
        assert hand_over(both, 2) == ""


def test_a_system_without_memory_for_a_lease_fails_the_hand_over_alone() -> None:
    with pair() as both:
        pool = both.decode_pages.engine.leases.pool  # type: ignore[attr-defined]
        make, pool._make = pool._make, no_memory
        receiver = both.decode.open(1, {"p": both.prefill.endpoint})
        receiver.publish([3])
        until(lambda: receiver.poll() is KVPoll.FAILED)
        told = receiver.failure or ""
        assert "lease: no staging memory of 4096 bytes: [Errno 12]" in told
        pool._make = make
        assert hand_over(both, 2) == ""


def no_memory(_region: int, _length: int) -> HostPiece:
    raise OSError(12, "Cannot allocate memory")


@pytest.mark.parametrize("side", ["there", "here"])
def test_a_device_that_fails_for_good_makes_its_process_unhealthy(side: str) -> None:
    with pair() as both:
        node = both.prefill if side == "there" else both.decode
        assert hand_over(both, 1) == ""
        assert node.stalled() is None
        getattr(both, side).fail("an illegal memory access was encountered")
        for room in (2, 3):
            told = hand_over(both, room)
            assert "the late device: an illegal memory access was encountered: the device has " \
                   "failed for good: restart this process" in told
        for said in (node.stalled(), node.health()):
            assert said is not None
            assert said.startswith(f"node {node.name}: the late device: an illegal memory access")
        other = both.decode if side == "there" else both.prefill
        assert other.stalled() is None


def test_memory_of_leases_is_pinned_once_and_unpinned_at_the_end() -> None:
    with pair() as both:
        pinned = []
        for room in range(6):
            assert hand_over(both, room) == ""
            pinned.append((both.here.pinned, both.here.calls["pin"]))
        assert pinned == [pinned[0]] * 6
        assert pinned[0][1] > 0
        both.decode.close()
        gc.collect()
        assert both.here.calls["unpin"] == pinned[0][1]


def test_memory_stays_pinned_while_a_copy_may_read_it() -> None:
    backing = HostPiece(1, mmap.PAGESIZE, shared=False)
    log: list[str] = []

    def pin(memory: np.ndarray) -> Callable[[], None]:
        log.append(f"pin {memory.nbytes}")
        return lambda: log.append("unpin")

    backing.pin(pin)
    backing.pin(pin)
    assert backing.whole is not None
    view = backing.whole.data[:16].toreadonly()
    source = np.frombuffer(view, np.uint8)
    backing.close()
    del view
    assert log == [f"pin {mmap.PAGESIZE}"]
    assert not source.any(), "it is mapped still"
    del source
    assert log == [f"pin {mmap.PAGESIZE}", "unpin"]
    backing.pin(pin)
    assert log[2:] == [], "it was given up"


def test_work_that_a_device_never_does_keeps_no_memory() -> None:
    """A device that has failed does no more work, and is given up together with it."""
    device, backing = HostDevice(), HostPiece(1, mmap.PAGESIZE, shared=False)
    backing.pin(device.pin)
    assert backing.whole is not None
    source = host_tensor(backing.whole.ctypes.data, mmap.PAGESIZE, backing.whole)
    device.stream().copy(torch.zeros_like(source), source)
    device.fail("an illegal memory access was encountered")
    backing.close()
    assert not backing.memory.closed, "the device may read it"
    del device, source
    gc.collect()
    backing.memory.close()
    assert backing.memory.closed
