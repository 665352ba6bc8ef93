"""The benchmarks of a data path on a GPU, on a simulated device. No test looks at times."""

from __future__ import annotations

from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from pdproto.kernels.chunk import register  # noqa: E402 - after torch
from pdproto.pages.device_copies import DeviceCopies  # noqa: E402
from pdproto.pages.host_device import HostDevice  # noqa: E402
from tests.bench import bench_device_calls, bench_device_path  # noqa: E402
from tests.bench.watched import Told, WatchedDevice, Work  # noqa: E402
from tests.skips import INTERPRETED  # noqa: E402

HERE: Final = torch.device("cpu")


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> HostDevice:
    monkeypatch.setattr(bench_device_calls, "ENTRIES", 2)
    monkeypatch.setattr(bench_device_calls, "SHAPE", (64, 2, 1, 16))
    return HostDevice()


def _drain(device: HostDevice) -> None:
    while any(stream._steps for stream in device.streams):
        device.go_on()


@pytest.mark.parametrize("carries", [True, False])
def test_the_calls_of_a_chunk_move_its_bytes(late: HostDevice, *, carries: bool) -> None:
    calls = bench_device_calls.path_calls(late, HERE, carries=carries)
    assert len(calls) == (3 if carries else 2)
    for name, (begin, end) in calls.items():
        before = late.calls.copy()
        made = [begin() for _ in range(bench_device_calls.AHEAD)]
        assert late.calls.total() > before.total(), name
        _drain(late)
        for one in made:
            end(one)


def test_a_chunk_that_differs_from_its_digests_is_no_time(
    late: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = bench_device_calls.path_calls(late, HERE, carries=False)
    monkeypatch.setattr(bench_device_calls, "KEY", 8)
    begin, end = calls["unpack, through pinned memory"]
    made = begin()
    _drain(late)
    with pytest.raises(AssertionError):
        end(made)


class Event:
    """An event of a device that counts."""

    count = 0

    def record(self, _stream: Any) -> None:
        Event.count += 1
        self.at = Event.count

    def elapsed_time(self, later: Event) -> float:
        return 1000.0 * (later.at - self.at)


def test_a_watched_device_notes_its_work_while_it_is_watched(late: HostDevice) -> None:
    device = WatchedDevice(late, Event)
    layout = register([torch.zeros((8, 2, 1, 16), dtype=torch.uint8) for _ in range(2)])
    copies = DeviceCopies(device, "cpu", carries=True)
    place = torch.zeros(1024, dtype=torch.uint8)

    def pack() -> None:
        staged = copies.pack(layout, [3, 1], 5)
        bench_device_calls.spin_until(staged.done)
        assert staged.carried is not None
        bench_device_calls.spin_until(staged.carried.copy_to(place[:staged.bytes]))
        staged.keep()

    pack()
    assert device.taken() == []
    device.is_watching = True
    pack()
    packed, carried = device.taken()
    assert (packed.kernels, packed.copies, carried.kernels, carried.copies) == (1, 0, 0, 1)
    assert packed.begun <= packed.seen <= carried.begun <= carried.seen
    assert (packed.device_s, carried.device_s) == (1.0, 1.0)
    assert device.taken() == []
    assert device.name == late.name


def test_the_parts_of_a_hand_over_add_up() -> None:
    pack, copy = Work(1.0, 3.0, 1.5, kernels=1), Work(4.0, 6.0, 0.5, copies=1)
    unpack = Work(7.0, 9.0, 0.25, kernels=1)
    parts = Told(0.5, 10.0, [pack, copy], [unpack]).parts()
    on_the_device = [part for name, part in parts.items() if name.endswith("on the device")]
    assert on_the_device == [1.5, 0.5, 0.25]
    assert parts.pop("control") == 9.5 - sum(on_the_device)
    assert sum(parts.values()) - sum(on_the_device) == 9.5
    several = Told(0.5, 10.0, [pack, copy, pack], [unpack]).parts()
    assert several == {"pack on the device": 3.0, "copy on the device": 0.5,
                       "unpack on the device": 0.25}


@pytest.mark.skipif(torch.cuda.is_available(), reason=INTERPRETED)
def test_without_a_gpu_they_say_so() -> None:
    assert bench_device_calls.main(["1", "--device", "cuda"]) == 2
    assert bench_device_path.main(["--only", "products"]) == 2


def test_a_pair_hands_over_on_a_simulated_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every byte is compared, and each part of the time is told."""
    monkeypatch.setattr(bench_device_path, "WAYS", {"single": 1})
    arguments = ["--device", "simulated", "--engine", "cuda-ipc", "--sizes", "2.6 MB",
                 "--rounds", "1", "--ahead", str(1 << 30)]
    assert bench_device_path.main(arguments) == 0
    told = capsys.readouterr().out
    for name in ("ratio", "until it packs", "until Success", "control", "right: True",
                 "1.1 GB ahead"):
        assert name in told
