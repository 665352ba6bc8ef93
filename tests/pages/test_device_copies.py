"""Hand-overs whose pools are on a device that does its work late (pages/host_device.py)."""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pdproto.engine.engines import open_sink, open_source
from pdproto.kernels.arguments import ALIGNMENT
from pdproto.kernels.chunk import plan_for, register
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.pages.chunks import chunk_offset
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.e2e.pairs import ENDED, until

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined

from pdproto.pages.device_copies import DeviceCopies  # noqa: E402 - needs torch
from pdproto.pages.host_device import HostDevice  # noqa: E402 - needs torch

OVER_NIXL: Final = pytest.param("nixl-gpu", marks=pytest.mark.skipif(
    find_spec("nixl_cu12") is None, reason="NIXL is not installed"))
PAGES: Final = 32
SHAPE: Final = (PAGES, 2, 2, 48)  # padding follows the payload
KERNELS: Final = pytest.mark.parametrize("kernels", [None, "interpreter"])


@dataclass
class Pair:
    """Two nodes, each with pools on a device of its own."""

    there: HostDevice
    here: HostDevice
    theirs: list[Any]
    ours: list[Any]
    prefill: PrefillNode
    decode: DecodeNode
    decode_pages: SinkPages

    def begin(self, room: int, pages: list[int]) -> tuple[Sender, Receiver]:
        """A hand-over of so many pages that waits for its pages to be sent."""
        sender = self.prefill.open(room)
        receiver = self.decode.open(room, {"p": self.prefill.endpoint})
        receiver.publish(pages)
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        return sender, receiver

    def compute(self, room: int, pages: list[int]) -> list[NDArray[np.uint8]]:
        """Have prefill's engine compute these pages, later. Returns what they will hold."""
        chance = np.random.default_rng(room)
        wanted = [chance.integers(0, 256, (len(pages), *SHAPE[1:]), np.uint8) for _ in self.theirs]

        def fill() -> None:
            for pool, bytes_ in zip(self.theirs, wanted, strict=True):
                pool[pages] = torch.from_numpy(bytes_)

        self.there.compute(fill)
        return wanted


@contextmanager
def pair(
    kernels: str | None = None, engine: str = "shm", seed: int = 0, pools: int = 2
) -> Iterator[Pair]:
    there, here = HostDevice(seed, kernels), HostDevice(seed + 1, kernels)
    theirs, ours = (
        [torch.zeros(SHAPE, dtype=torch.uint8) for _ in range(pools)] for _ in range(2))
    prefill = PrefillNode("p", SourcePages(theirs, open_source(engine), device=there))
    pages = SinkPages(ours, open_sink(engine), device=here)
    decode = DecodeNode("d", pages)
    try:
        yield Pair(there, here, theirs, ours, prefill, decode, pages)
    finally:
        for device in (there, here):
            device.stands_still = False
        decode.close()
        prefill.close()


@KERNELS
@pytest.mark.parametrize("engine", ["shm", "tcp", "tcp, copied", "cuda-ipc", OVER_NIXL])
def test_pages_that_are_computed_later_arrive_whole(
    kernels: str | None, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Property S15: the pack waits for the pass, and the post waits for the pack."""
    name, *copied = engine.split(", ")
    if copied:  # as large chunks are
        monkeypatch.setattr(DeviceCopies, "over_link_max", 0)
    with pair(kernels, name) as both:
        for room in range(6):
            count = 1 + room % 3
            sources, sinks = list(range(count)), list(range(9, 9 + count))
            sender, receiver = both.begin(room, sinks)
            wanted = both.compute(room, sources)
            sender.send(sources)
            until(lambda of=receiver: of.poll() in ENDED)  # type: ignore[misc]
            assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
            for pool, bytes_ in zip(both.ours, wanted, strict=True):
                assert np.array_equal(pool[sinks].numpy(), bytes_)
            receiver.close()
            until(lambda s=sender, r=receiver: s.released and r.released)  # type: ignore[misc]


@pytest.mark.parametrize("engine", ["shm", "cuda-ipc", OVER_NIXL])
def test_many_at_once_and_in_several_chunks(engine: str) -> None:
    with pair(engine=engine, seed=5) as both:
        open_: list[tuple[Receiver, list[int], list[NDArray[np.uint8]]]] = []
        for room in range(8):
            pages = list(range(4 * room, 4 * room + 4))
            sender, receiver = both.begin(room, pages)
            open_.append((receiver, pages, both.compute(room, pages)))
            sender.send(pages[:1], last=False)
            sender.send(pages[1:])
        for receiver, pages, wanted in open_:
            until(lambda of=receiver: of.poll() in ENDED)  # type: ignore[misc]
            assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
            for pool, bytes_ in zip(both.ours, wanted, strict=True):
                assert np.array_equal(pool[pages].numpy(), bytes_)


def test_pages_are_not_free_while_the_device_writes_them() -> None:
    """Decode aborts while its device unpacks. Otherwise the next request's page is overwritten."""
    with pair() as both:
        sender, receiver = both.begin(1, [3])
        both.here.stands_still = True
        runs = both.here.calls["run"]
        both.compute(1, [0])
        sender.send([0])
        until(lambda: sender.poll() is KVPoll.TRANSFERRING)
        until(lambda: both.here.calls["run"] > runs)  # the copy has begun
        receiver.abort()
        time.sleep(0.2)
        assert not receiver.released
        both.here.stands_still = False
        until(lambda: receiver.released)
        before = [pool.clone() for pool in both.ours]
        time.sleep(0.05)
        assert all(torch.equal(*two) for two in zip(before, both.ours, strict=True))


def test_a_sink_does_not_commit_while_its_device_unpacks() -> None:
    """Property S15 at the sink: what follows reads the pages."""
    with pair() as both:
        sender, receiver = both.begin(1, [3])
        wanted = both.compute(1, [0])
        both.here.stands_still = True
        runs = both.here.calls["run"]
        sender.send([0])
        until(lambda: both.here.calls["run"] > runs)
        time.sleep(0.2)
        assert receiver.poll() is KVPoll.WAITING_FOR_INPUT
        both.here.stands_still = False
        until(lambda: receiver.poll() in ENDED)
        for pool, bytes_ in zip(both.ours, wanted, strict=True):
            assert np.array_equal(pool[[3]].numpy(), bytes_)


def test_pages_are_filled_behind_the_steps_that_have_used_them() -> None:
    """Decode hands a page over while a step of the request before still writes to it."""
    with pair() as both:
        sender = both.prefill.open(1)
        receiver = both.decode.open(1, {"p": both.prefill.endpoint})
        both.here.passes.stands_still = True
        for pool in both.ours:
            both.here.compute(partial(wipe, pool))
        receiver.publish([3])
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        wanted = both.compute(1, [0])
        sender.send([0])
        until(lambda: sender.poll() is KVPoll.SUCCESS)
        time.sleep(0.2)
        assert receiver.poll() is KVPoll.WAITING_FOR_INPUT
        both.here.passes.stands_still = False
        until(lambda: receiver.poll() in ENDED)
        for pool, bytes_ in zip(both.ours, wanted, strict=True):
            assert np.array_equal(pool[[3]].numpy(), bytes_)


def wipe(pool: Any) -> None:
    pool[3] = 0


def packing(both: Pair) -> tuple[Sender, Receiver]:
    """A hand-over whose source packs on a device that stands still."""
    sender, receiver = both.begin(1, [3])
    both.there.stands_still = True
    runs = both.there.calls["run"]
    sender.send([0])
    until(lambda: both.there.calls["run"] > runs)  # the pack has begun
    return sender, receiver


def test_pages_are_not_free_while_the_device_reads_them() -> None:
    """Prefill aborts while its device packs."""
    with pair() as both:
        sender, _ = packing(both)
        sender.abort()
        time.sleep(0.2)
        assert sender.poll() is KVPoll.FAILED
        assert not sender.released
        both.there.stands_still = False
        until(lambda: sender.released)


def test_a_source_does_not_say_drained_while_its_device_packs() -> None:
    """Decode aborts. Its lease ends when prefill's device has packed, and not before."""
    with pair() as both:
        sender, receiver = packing(both)
        receiver.abort()
        until(lambda: receiver.poll() is KVPoll.FAILED and sender.poll() is KVPoll.FAILED)
        time.sleep(0.2)
        assert both.decode_pages._leases
        assert not sender.released
        both.there.stands_still = False
        until(lambda: not both.decode_pages._leases and sender.released)


def test_a_lease_does_not_end_while_the_device_reads_it() -> None:
    """Decode aborts while its device copies out of the lease, which another life could get."""
    with pair() as both:
        sender, receiver = both.begin(1, [3])
        both.here.stands_still = True
        copies = both.here.calls["copy"]
        sender.send([0])
        until(lambda: both.here.calls["copy"] > copies)
        receiver.abort()
        until(lambda: receiver.poll() is KVPoll.FAILED)
        time.sleep(0.2)
        assert _leased(both) > 0
        both.here.stands_still = False
        until(lambda: not _leased(both))


def _leased(both: Pair) -> int:
    """How many leases the memory of decode's engine has."""
    return len(both.decode_pages.engine.leases._held)  # type: ignore[attr-defined]


@pytest.mark.parametrize("side", ["there", "here"])
def test_a_device_that_fails_ends_its_hand_overs_with_its_reason(side: str) -> None:
    with pair() as both:
        sender, receiver = both.begin(1, [3])
        getattr(both, side).fail("an illegal memory access was encountered")
        sender.send([0])
        until(lambda: sender.poll() in ENDED and receiver.poll() in ENDED)
        assert "illegal memory access" in (sender.failure or "") + (receiver.failure or "")
        until(lambda: sender.released and receiver.released)


@pytest.mark.parametrize("engine", ["shm", "cuda-ipc", OVER_NIXL])
def test_no_memory_is_made_after_the_first_hand_overs(engine: str) -> None:
    with pair(engine=engine) as both:
        made = []
        for room in range(12):
            sender, receiver = both.begin(room, [3, 5])
            sender.send([0, 1])
            until(lambda of=receiver: of.poll() is KVPoll.SUCCESS)  # type: ignore[misc]
            receiver.close()
            until(lambda s=sender, r=receiver: s.released and r.released)  # type: ignore[misc]
            made.append([device.calls[call] for device in (both.there, both.here)
                         for call in ("memory", "host_memory", "pin", "export", "map")])
        assert made[-1] == made[0]


@KERNELS
def test_a_chunk_that_lands_at_an_odd_address_is_unpacked(kernels: str | None) -> None:
    """The digests of an odd number of pools end between two multiples of 16 bytes, and the next
    chunk begins there, in the memory of the sink's device.
    """
    layout = register([torch.zeros(SHAPE, dtype=torch.uint8)])
    assert chunk_offset(layout, 1) % ALIGNMENT
    with pair(kernels, "cuda-ipc", pools=1) as both:
        sender, receiver = both.begin(1, [3, 4])
        wanted = both.compute(1, [0, 1])
        sender.send([0], last=False)
        sender.send([1])
        until(lambda: receiver.poll() in ENDED)
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        assert np.array_equal(both.ours[0][[3, 4]].numpy(), wanted[0])


def test_memory_of_a_lease_is_not_kept_by_what_was_prepared_for_it() -> None:
    """Otherwise a GPU would never have it back."""
    layout, device = register([torch.zeros(SHAPE, dtype=torch.uint8)]), HostDevice(1)
    copies = DeviceCopies(device, "cpu")
    exported = device.export(plan_for(layout, 1).only.bytes)
    unpacked = copies.unpack(layout, exported.memory, [0], key=1)
    until(unpacked.ready)
    unpacked.clean()
    assert is_mapped()
    del unpacked
    exported.free()
    gc.collect()
    assert not is_mapped()


def is_mapped() -> bool:
    """Whether this process has memory that a simulated device exports."""
    return "memfd:pdproto-late-device" in Path("/proc/self/maps").read_text()


def test_the_padding_of_a_chunk_is_empty() -> None:
    """A buffer is used again: what another chunk left there must not reach a sink."""
    layout = register([torch.full(SHAPE, 255, dtype=torch.uint8)])
    copies = DeviceCopies(HostDevice(1), "cpu")
    staged = copies.pack(layout, [0, 1, 2], key=1)
    until(staged.done)
    staged.keep()
    again = copies.pack(layout, [0], key=1)
    until(again.done)
    plan = plan_for(layout, 1).only
    padding = np.asarray(again.views[0])[plan.payload_bytes:plan.digest_offset]
    assert padding.size == 64
    assert not padding.any()
