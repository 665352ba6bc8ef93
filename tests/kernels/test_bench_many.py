"""Launches of many requests and chunks in pinned memory, as the benchmark makes them: tiny cases.

Without a GPU they run in Triton's interpreter. No test looks at times.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from lab.bench import many, pinned, timing  # noqa: E402 - after torch
from lab.bench import subject as bench_subject  # noqa: E402
from lab.bench.cases import MANY, PINNED, Case, Operation, Way  # noqa: E402
from lab.bench.subject import WrongResultError  # noqa: E402
from pdproto.kernels import device  # noqa: E402
from pdproto.kernels.chunk import pack_requests, register  # noqa: E402
from pdproto.kernels.plan import HeadRange  # noqa: E402
from tests.tiers import sampled  # noqa: E402

HEADS: Final = (HeadRange(0, 3), HeadRange(3, 1))
REQUESTS: Final = (
    Case("plain", Operation.PACK, 3, 2, 4, 16, 16, 0.9, requests=4),
    Case("plain", Operation.UNPACK, 3, 2, 4, 16, 16, 0.9, requests=2),
    Case("latent", Operation.PACK, 2, 1, 1, 656, 4, 0.9, requests=2),
    Case("split", Operation.PACK, 2, 2, 4, 16, 8, 0.9, HEADS, requests=2),
    Case("merge", Operation.UNPACK, 2, 2, 4, 16, 8, 0.9, HEADS, requests=2),
)
HOSTED: Final = tuple(
    Case("plain", operation, 3, 2, 4, 16, 6, 0.9)
    for operation in (Operation.PACK, Operation.UNPACK, Operation.DIGEST_PACK,
                      Operation.VERIFY_UNPACK)
)  # fmt: skip


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> str:
    """Where tensors are; every case has two repetitions."""
    monkeypatch.setattr(Case, "traffic_bytes", bench_subject.COLD_BYTES // 2)
    if torch.cuda.is_available():
        return "cuda"
    monkeypatch.setattr(bench_subject, "register",
                        lambda pools: replace(register(pools), device="interpreter"))
    return "cpu"


@pytest.mark.parametrize("case", sampled(
    [pytest.param(case, id=case.title) for case in REQUESTS], 3, "requests of every case"))
def test_requests_of_every_case_are_right_in_each_way(on: str, case: Case) -> None:
    requests = many.bound(case, on)
    many.check(requests)
    assert [len(calls) for calls in requests.calls.values()] == [2, 2, 2]
    with mock.patch.object(device, "run", wraps=vars(device)["run"]) as run:
        launches = []
        for calls in requests.calls.values():
            before = run.call_count
            calls[0]()
            launches.append(run.call_count - before)
    assert launches == [1, case.requests, case.requests]
    for copy in requests.subject.copies:
        copy()


def test_requests_have_unequal_lengths_that_add_up() -> None:
    for case in (*MANY, *REQUESTS):
        counts = many.counts_of(case)
        assert (len(counts), sum(counts)) == (case.requests, case.pages)
        assert min(counts) > 0
        assert len(set(counts)) > 1


@pytest.mark.parametrize("name", [many.ONE, many.EACH, many.PLACED])
def test_requests_that_are_not_copied_are_not_timed(on: str, name: str) -> None:
    for case in (REQUESTS[0], REQUESTS[4]):
        requests = many.bound(case, on)
        requests.calls[name] = [lambda: None] * 2
        with pytest.raises(WrongResultError, match=f"{name} differs"):
            many.check(requests)


def test_pages_in_the_place_of_others_are_noticed(on: str) -> None:
    requests = many.bound(REQUESTS[0], on)
    *others, last = requests.parts[0]
    turned = [*others, replace(last, pages=last.pages[::-1].copy())]
    requests.calls[many.ONE][0] = partial(pack_requests, requests.subject.layout, turned)
    with pytest.raises(WrongResultError, match=f"{many.ONE} differs"):
        many.check(requests)


@pytest.mark.parametrize("case", sampled(
    [pytest.param(case, id=case.title) for case in HOSTED], 2, "pinned chunks"))
def test_pinned_chunks_are_right_in_both_ways(on: str, case: Case) -> None:
    hosted = pinned.bound(case, on)
    pinned.prove(hosted)
    assert len(hosted.copies) == len(hosted.memory) == 2
    for copy in hosted.copies:
        copy()
    for way in Way:
        broken = pinned.bound(case, on)
        broken.calls[way] = [lambda: None] * 2
        with pytest.raises(WrongResultError, match="differ"):
            pinned.prove(broken)
        if case.operation is Operation.UNPACK:  # from zeros into pages of zeros
            broken.calls[way] = [partial(torch.Tensor.zero_, one) for one in broken.memory]
            with pytest.raises(WrongResultError, match="it changes the chunk"):
                pinned.prove(broken)


@pytest.mark.parametrize("case", HOSTED[2:], ids=lambda case: case.title)
def test_wrong_digests_in_pinned_memory_are_noticed(on: str, case: Case) -> None:
    hosted = pinned.bound(case, on)
    calls = hosted.calls[Way.KERNEL]

    def spoilt() -> None:
        hosted.memory[0][-1] ^= 1
        calls[0]()
        hosted.memory[0][-1] ^= 2

    hosted.calls[Way.KERNEL] = [spoilt, *calls[1:]]
    with pytest.raises(WrongResultError, match="digests by the kernel differ"):
        pinned.prove(hosted)


def test_cases_have_the_sizes_that_a_data_path_has() -> None:
    assert {case.requests for case in MANY} == {2, 8, 32}
    assert all(case.payload_bytes * 4 < 70e9 for case in MANY)
    sizes = {case.name: case.payload_bytes for case in PINNED}
    assert sizes == {"66 KB": 65_536, "1 MB": 1 << 20, "5.2 MB": 5_242_880, "42 MB": 41_943_040}
    assert len({case.title for case in PINNED}) == len(PINNED) == 10


class Mark:
    """An event of a device that is held: it has come once the calls before it took so long."""

    held_us = 0.0
    spent_us = 0.0
    count = 0

    def __init__(self, **_: object) -> None:
        self.at = 0.0

    def record(self, *_: object) -> None:
        Mark.count += 1
        self.at = float(Mark.count)

    def query(self) -> bool:
        return Mark.spent_us > Mark.held_us

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: Mark) -> float:
        return later.at - self.at


@pytest.mark.parametrize(("spent_us", "rounds"), [(100.0, 5), (9000.0, 5), (1e6, 0)])
def test_a_device_is_held_until_all_calls_are_enqueued(
    monkeypatch: pytest.MonkeyPatch, spent_us: float, rounds: int
) -> None:
    """A round whose first call began before the last was enqueued has no time."""
    held: list[float] = []

    def hold(us: float) -> None:
        held.append(us)
        Mark.held_us = us

    monkeypatch.setattr(Mark, "spent_us", spent_us)
    monkeypatch.setattr(timing, "event", Mark)
    monkeypatch.setattr(timing, "hold", hold)
    one = timing.Prepared(lambda: None, 1, 1.0)
    if not rounds:
        with pytest.raises(TimeoutError, match="not enqueued within 64000 us"):
            timing.in_turns(one, one, rounds=3, held=True)
        return
    told, _ = timing.in_turns(one, one, rounds=3, held=True)
    assert told.ratio == 1
    assert [us >= spent_us for us in held].count(True) == rounds
    assert held[0] == timing.HOLD_US
