"""A whole run on a GPU, with stand-ins on the CPU for CUDA's streams, events and graphs.

It shows that every part runs and is printed. Its times mean nothing.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from lab.bench import device as bench_device
from lab.bench import load, patterns, timing
from lab.bench.cases import Case, Operation
from lab.bench.driver import LeftOutError
from lab.bench.subject import make
from lab.verbs import bench
from pdproto.kernels.plan import HeadRange
from tests.kernels.test_bench import _parsed
from tests.skips import INTERPRETED

SPLIT = (HeadRange(0, 3), HeadRange(3, 1))
CASES = (
    Case("plain", Operation.PACK, 2, 2, 4, 16, 8, 0.9),
    Case("split", Operation.PACK, 2, 2, 4, 16, 6, 0.9, SPLIT),
    Case("plain", Operation.DIGEST_PACK, 2, 2, 4, 16, 8, 0.9),
)
MORE = (Case("plain", Operation.UNPACK, 2, 2, 4, 16, 8, 0.0),)
SMALL = (Case("1 page", Operation.PACK, 2, 2, 4, 16, 2, 0.0),) * 2


class Event:
    """A time on the host."""

    at = 0.0

    def __init__(self, **_: object) -> None:
        pass

    def record(self, *_: object) -> None:
        self.at = perf_counter()

    def synchronize(self) -> None:
        assert self.at

    def elapsed_time(self, later: Event) -> float:
        return max(later.at - self.at, 1e-6) * 1000


class Graph:
    """Calls, and those that are made within it are the same again."""

    def __init__(self, calls: Any, launches: int) -> None:
        self.calls = [calls[turn % len(calls)] for turn in range(launches)]

    def replay(self) -> None:
        for call in self.calls:
            call()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise LeftOutError("no libcudart.so is loaded here")

    def randn(real: Callable[..., Any], *shape: int, device: str, **options: Any) -> Any:
        assert device == "cuda"
        return real(*shape, **options)

    monkeypatch.setattr(bench, "_cuda", lambda: True)
    for name, value in {
        "Event": Event, "synchronize": lambda: None, "empty_cache": lambda: None,
        "stream": lambda _: contextlib.nullcontext(), "Stream": lambda **_: object(),
        "get_device_properties": lambda _: SimpleNamespace(name="none", multi_processor_count=0),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch, "randn", partial(randn, torch.randn))
    profile = torch.profiler.profile
    monkeypatch.setattr(torch.profiler, "profile", lambda activities, **named: profile(
        activities=[kind for kind in activities if kind.name == "CPU"], **named
    ))  # fmt: skip
    monkeypatch.setattr(timing, "captured", Graph)
    monkeypatch.setattr(timing, "GRAPH_US", 1.0)
    monkeypatch.setitem(timing.in_turns.__kwdefaults__ or {}, "rounds", 3)
    monkeypatch.setattr(patterns, "runtime", missing)
    monkeypatch.setattr(patterns, "kernels", lambda _: missing())
    monkeypatch.setattr(bench_device, "make", partial(make, device="cpu"))
    monkeypatch.setattr(load, "make", partial(make, device="cpu"))
    monkeypatch.setattr(load, "MATRIX", 8)
    monkeypatch.setattr(bench_device, "CASES", CASES)
    monkeypatch.setattr(bench_device, "MORE", MORE)
    monkeypatch.setattr(bench_device, "SMALL", SMALL[:1])
    monkeypatch.setattr(bench_device, "SMALL_GOALS_US", (4.5,))
    monkeypatch.setattr(load, "SMALL", SMALL)
    monkeypatch.setattr(load, "LARGE", CASES[0])
    monkeypatch.setattr(load, "SPLIT", CASES[1])
    monkeypatch.setattr("lab.bench.subject.COLD_BYTES", 4000)


@pytest.mark.skipif(torch.cuda.is_available(), reason=INTERPRETED)
@pytest.mark.usefixtures("cuda")
def test_a_whole_run_measures_and_prints_everything(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_file = tmp_path / "r.json"
    assert bench.run(_parsed("--device", "cuda", "--json", str(json_file))) == 0
    told = json.loads(json_file.read_text())
    assert [(row["operation"], row["case"]) for row in told["rows"]] == [
        ("pack", "plain"), ("pack", "split"), ("pack and digest", "plain"), ("unpack", "plain"),
    ]
    plain = told["rows"][0]
    assert {"index_select per entry", "gather per entry", "by element"} <= set(plain["baselines"])
    assert plain["left_out"]["one cudaMemcpyBatchAsync"] == "no libcudart.so is loaded here"
    assert set(plain["left_out"]) >= {"CUDA C, 8 B, a warp per token", "SGLang's gather, as called"}
    numbers = told["numbers"]
    assert "(goal 4.5)" in numbers["1 page: device time in a graph"]
    assert "(goal 25)" in numbers["1 page: call to completion, idle GPU"]
    assert numbers["per chunk, 2 entries: kernels"].endswith("(goal 1)")
    assert numbers["per chunk for 8 peers, 2 entries: waits"].endswith("(goal 0)")
    assert "(goal 1.00)" in numbers["32 thread blocks"]
    out, err = capsys.readouterr()
    assert "* without one cudaMemcpyBatchAsync in 3 of 4 cases" in out
    assert "[7 of 7, " in err
