"""A chunk after the first of its size makes no memory and waits for nothing; what it needs is
compiled at start.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from pdproto.engine.engines import open_sink, open_source
from pdproto.kernels.arguments import Launch
from pdproto.kernels.chunk import KVLayout, plan_for, register
from pdproto.pages.device import DeviceError
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from tests.skips import INTERPRETED

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402 - needs torch

from pdproto.kernels import device as kernels  # noqa: E402 - needs torch
from pdproto.pages.device_copies import DeviceCopies  # noqa: E402 - needs torch
from pdproto.pages.host_device import HostDevice, HostStream  # noqa: E402 - needs torch

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason=INTERPRETED)

SHAPE: Final = (64, 16, 1, 256)
LIFTED: Final = torch.ops.aten.lift_fresh.default  # of torch.tensor, which made it unseen
WAITS: Final = {"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default"}


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations of torch that make memory, and those that wait for a device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        given = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}
        is_new = (isinstance(result, torch.Tensor)
                  and result.untyped_storage().data_ptr() not in given)
        if is_new or function is LIFTED:
            self.made[str(function)] += 1
        if str(function) in WAITS:
            self.waited[str(function)] += 1
        return result


class Event:
    """An event of a device that has happened. Whoever waits for it is counted."""

    waits = 0

    def query(self) -> bool:
        return True

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        Event.waits += 1


class PromptStream(HostStream):
    """Does its work at once, so that the thread that is counted does it."""

    def run(self, work: Callable[[Launch], object]) -> None:
        work(Launch())

    def copy(self, target: Any, source: Any) -> None:
        target.copy_(source)


class PromptDevice(HostDevice):
    def stream(self) -> HostStream:
        return PromptStream(self)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The grids of the kernels that are launched. None runs, for the interpreter makes memory."""
    grids: list[int] = []
    monkeypatch.setattr(kernels, "run", lambda _, __, grid, *___, **____: grids.append(grid))
    return grids


@pytest.fixture
def layout() -> KVLayout:
    return register([torch.zeros(SHAPE, dtype=torch.uint8) for _ in range(2)])


@pytest.fixture
def counted() -> Iterator[Operations]:
    Event.waits = 0
    yield Operations()
    Event.waits = 0


def used(device: HostDevice) -> list[int]:
    return [device.calls[call] for call in ("memory", "host_memory", "pin")]


def test_a_chunk_makes_no_memory_and_waits_for_nothing(
    launches: list[int], layout: KVLayout, counted: Operations
) -> None:
    device = PromptDevice(kernels="interpreter")
    copies = DeviceCopies(device, "cpu")
    landed = np.zeros(plan_for(layout, 16).only.bytes, np.uint8)

    def both(count: int, key: int) -> None:
        pages = [(3 * page + key) % SHAPE[0] for page in range(count)]
        copies.pack(layout, pages, key, head=b"head").keep()
        assert copies.unpack(layout, landed, pages, key).clean()

    for count in (3, 16):
        both(count, 0)
    for buffers in (one for free in copies._unpacks.values() for one in free):
        for report in buffers.reports.values():
            report._fetched = Event()  # type: ignore[attr-defined]
    before, launched = used(device), len(launches)
    with counted:
        for turn in range(1, 21):
            both(3 if turn % 2 else 16, turn)
    assert len(launches) - launched == 40
    # A view of host memory that is there already; no page of it is made.
    assert set(counted.made) <= {"aten.frombuffer.default"}
    assert not counted.waited
    assert Event.waits == 0
    assert used(device) == before


def test_the_port_is_called_as_often_for_many_pages_as_for_one(
    launches: list[int], layout: KVLayout
) -> None:
    """A copy to host memory follows a large chunk, which 48 pages are here."""
    device = HostDevice(kernels="interpreter")
    copies = DeviceCopies(device, "cpu")
    found = []
    for count in (1, 1, 48):
        landed = np.zeros(plan_for(layout, count).only.bytes, np.uint8)
        copies.over_link_max = landed.nbytes - (count == 48)
        pages, before = list(range(count)), device.calls.copy()
        copies.pack(layout, pages, 1, after=device.passed())
        copies.unpack(layout, landed, pages, 1)
        found.append({call: device.calls[call] - before[call]
                      for call in ("wait", "run", "copy", "record")})
    small = {"wait": 1, "run": 2, "copy": 1, "record": 3}
    assert found == [small, small, {**small, "copy": 2}]
    del launches


@pytest.mark.parametrize(("head", "copies"), [(b"", 0), (bytes(16), 0), (b"head", 1)])
def test_a_small_chunk_is_packed_to_host_memory_where_a_kernel_can_write_it(
    launches: list[int], layout: KVLayout, head: bytes, copies: int
) -> None:
    device = HostDevice(kernels="interpreter")
    DeviceCopies(device, "cpu").pack(layout, [3, 1], 1, head)
    assert device.calls["copy"] == copies
    del launches


class Calls:
    """Counts the calls of functions, of Python and of C, in a thread."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Calls":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, _: object, event: str, __: object) -> None:
        self.count += event in {"call", "c_call"}


def test_a_chunk_takes_as_little_of_the_host_whatever_its_pages(launches: list[int]) -> None:
    """74 and 90 calls take 11 and 16 us (tests/bench/bench_device_calls.py). With views and
    arguments made anew they are 152 and 168, and take two to three times as long.
    """
    copies = DeviceCopies(PromptDevice(kernels="interpreter"), "cpu")
    layout = register([torch.zeros(SHAPE, dtype=torch.uint8) for _ in range(160)])
    for count in (1, 48):
        pages = list(range(count))
        landed = np.zeros(plan_for(layout, count).only.bytes, np.uint8)
        for _ in range(3):
            with Calls() as packing:
                copies.pack(layout, pages, 1).keep()
            with Calls() as unpacking:
                copies.unpack(layout, landed, pages, 1).clean()
        assert packing.count <= 85
        assert unpacking.count <= 100
    del launches


def open_prefill(pools: list[Any], device: HostDevice) -> object:
    return SourcePages(pools, open_source("shm"), device=device)


def open_decode(pools: list[Any], device: HostDevice) -> object:
    return SinkPages(pools, open_sink("shm"), device=device)


@pytest.mark.parametrize("open_", [open_prefill, open_decode])
def test_a_kernel_that_cannot_be_compiled_is_told_at_start(
    open_: Callable[[list[Any], HostDevice], object]
) -> None:
    device = HostDevice(kernels="interpreter")
    device.faults["run"] = PermissionError(13, "Permission denied", "/kept/triton/cache")
    pools = [torch.zeros(SHAPE, dtype=torch.uint8)]
    with pytest.raises(DeviceError, match=r"a kernel cannot be compiled: .*/kept/triton/cache.*: "
                                          "set TRITON_CACHE_DIR to a folder"):
        open_(pools, device)


def test_what_chunks_need_is_compiled_at_start(
    monkeypatch: pytest.MonkeyPatch, layout: KVLayout
) -> None:
    compiled: list[object] = []
    monkeypatch.setattr(kernels, "run", lambda kernel, variant, *_, **__: compiled.append(
        (kernel, variant)))
    copies = DeviceCopies(PromptDevice(kernels="interpreter"), "cpu")
    copies.warm(layout)
    at_start = set(compiled)
    assert len(at_start) == 2
    compiled.clear()
    for count in (1, 5, 40):
        pages = list(range(count))
        copies.pack(layout, pages, 1)
        copies.unpack(layout, np.zeros(plan_for(layout, count).only.bytes, np.uint8), pages, 1)
    assert set(compiled) == at_start
