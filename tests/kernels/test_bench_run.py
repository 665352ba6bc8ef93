"""How a run on a GPU is led, without one: order, limits, what is left out, and goals printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from examples.sglang_handoff import without_torchvision
from lab.bench import baselines, device, patterns, sglang, timing
from lab.bench import subject as bench_subject
from lab.bench.baselines import Baseline
from lab.bench.cases import Case, Listing, Operation
from lab.bench.driver import LeftOutError
from lab.bench.load import budgets_told
from lab.bench.patterns import cut, joined, pieces
from lab.bench.report import Results
from lab.bench.subject import make
from pdproto.kernels.plan import HeadRange
from tests.skips import SGLANG

PLAIN = Case("plain", Operation.PACK, 3, 2, 4, 16, 8, 0.9)


class Clock:
    """Time that passes only in units."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def unit(self, seconds: float, error: Exception | None = None) -> device.Unit:
        def run(results: Results) -> None:
            self.now += seconds
            if error is not None:
                raise error
            results.numbers[f"{self.now:g}"] = ""

        return run


def test_a_run_names_the_cases_left_and_begins_none_too_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock, results = Clock(), Results()
    units = {name: clock.unit(20) for name in ("a", "b", "c", "d", "e")}
    device.run(units, results, minutes=1, clock=clock)
    assert list(results.numbers) == ["120", "140", "160"]
    assert results.notes == ["not measured in 1 minutes: d; e"]
    assert capsys.readouterr().err.splitlines() == [
        "[1 of 5] a",
        "[2 of 5, 20 s gone, about 80 s left] b",
        "[3 of 5, 40 s gone, about 60 s left] c",
    ]


def test_a_case_that_does_not_fit_is_noted_and_the_rest_goes_on() -> None:
    clock, results = Clock(), Results()
    error = torch.cuda.OutOfMemoryError("CUDA out of memory.\nmore")
    units = {"large": clock.unit(1, error), "small": clock.unit(1)}
    device.run(units, results, minutes=1, clock=clock)
    assert list(results.numbers) == ["102"]
    assert results.notes == ["large: out of memory: CUDA out of memory."]
    with pytest.raises(ValueError, match="wrong"):
        device.run({"one": clock.unit(1, ValueError("wrong"))}, results, minutes=1,
                         clock=clock)  # fmt: skip


def test_a_baseline_that_cannot_be_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, turns = [], []

    def prepared(calls: Any, *, graphed: bool = True) -> timing.Prepared:
        asked.append((len(calls), graphed))
        return timing.Prepared(calls[0], 1, 1.0 if graphed else 50_000.0)

    def in_turns(*_: object, rounds: int = 0) -> tuple[timing.Timed, float]:
        turns.append(rounds)
        return timing.Timed(4.0, 0.8, 0.7, 0.9), 3.2

    def missing(_: object) -> Any:
        raise LeftOutError("it is not here\nat all")

    def broken(_: object) -> Any:
        raise RuntimeError

    monkeypatch.setattr(timing, "prepared", prepared)
    monkeypatch.setattr(timing, "in_turns", in_turns)
    monkeypatch.setattr(baselines, "of", lambda _: {
        "missing": Baseline(missing), "broken": Baseline(broken),
        "wrong": Baseline(lambda _: [lambda: None]),
        "right": Baseline(baselines.index_select, graphed=False),
    })  # fmt: skip
    row = device._row(make(PLAIN, "cpu"), baselines=True)
    assert (row.us, row.fraction, row.goal, row.baselines) == (4.0, 0.8, 0.9, {"right": 0.8})
    assert row.left_out == {
        "missing": "it is not here", "broken": "RuntimeError",
        "wrong": "pack, plain: wrong differs from the reference",
    }  # fmt: skip
    assert asked == [(256, True), (256, True), (256, False)]
    assert turns == [0, 3]
    assert "without missing: it is not here" in capsys.readouterr().err


def test_units_have_every_case_and_the_quick_ones_few() -> None:
    every, quick = device.units(quick=False), device.units(quick=True)
    assert set(quick) < set(every)
    assert list(quick) == ["pack: 4 KiB pages", "small: 1 page, one head (655 KB)",
                           "small: 1 page, eight heads (5.2 MB)", "launches"]  # fmt: skip
    assert "thread blocks" in every
    assert "pack: 32 KiB pages, reversed" in every


def test_goals_stand_beside_the_effect_of_a_bound_on_blocks() -> None:
    told = budgets_told({
        4: (0.2, 0.09, 0.001), 8: (0.31, 0.25, 0.013), 16: (0.6, 0.5, 0.03), 32: (1.1, 0.9, 0.1),
    })  # fmt: skip
    assert told["4 thread blocks"].startswith("0.20 TB/s payload alone, 0.09 TB/s beside")
    assert told["8 thread blocks"] == (
        "0.31 TB/s payload alone (goal 0.25), 0.25 TB/s beside matrix products,"
        " which then take +1.3%"
    )
    assert told["32 thread blocks"].startswith("1.10 TB/s payload alone (goal 1.00)")
    name = "matrix products beside copies for two 400 Gbit/s cards"
    assert told[name] == "+1.3% with 8 thread blocks (goal +2.0%)"
    assert budgets_told({4: (0.2, 0.09, 0.0)})[name] == "no bound reaches 0.1 TB/s (goal +2.0%)"


def test_pieces_that_follow_each_other_are_one_copy() -> None:
    listed = np.array([
        [0, 100, 10], [10, 110, 10], [30, 120, 10],  # entry 0
        [40, 130, 10], [50, 150, 10], [60, 160, 10],  # entry 1, whose first follows the last
    ])  # fmt: skip
    assert joined(listed, 2).tolist() == [
        [0, 100, 20], [30, 120, 10], [40, 130, 10], [50, 150, 20],
    ]  # fmt: skip
    assert joined(listed[:3], 1).tolist() == [[0, 100, 20], [30, 120, 10]]
    assert joined(listed[:1], 1).tolist() == [[0, 100, 10]]


def test_long_pieces_are_cut() -> None:
    listed = np.array([[0, 100, 25], [50, 200, 10], [60, 300, 30]])
    assert cut(listed, 10).tolist() == [
        [0, 100, 10], [10, 110, 10], [20, 120, 5], [50, 200, 10],
        [60, 300, 10], [70, 310, 10], [80, 320, 10],
    ]  # fmt: skip


def test_runs_of_a_list_are_copies_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 entries of 16 pages: one run an entry, one or two runs of 8, or a run a page."""
    monkeypatch.setattr(bench_subject, "COLD_BYTES", 1)
    lengths = {}
    for listing in (Listing.IDENTITY, Listing.RUNS, Listing.REVERSED):
        subject = make(Case("", Operation.PACK, 3, 2, 4, 16, 32, 0.9, listing=listing), "cpu")
        runs = joined(pieces(subject, 0), 3)
        assert runs[:, 2].sum() == 3 * 16 * 128
        lengths[listing] = len(runs)
    assert lengths[Listing.IDENTITY] == 3
    assert lengths[Listing.RUNS] in {3, 6}
    assert lengths[Listing.REVERSED] == 48


@pytest.mark.parametrize(("peers", "most"), [
    (None, 11), ((HeadRange(1, 2),), 23), ((HeadRange(0, 3), HeadRange(3, 1)), 47),
], ids=["pages", "slices", "two peers"])  # fmt: skip
def test_too_many_copies_are_left_out(
    monkeypatch: pytest.MonkeyPatch, peers: tuple[HeadRange, ...] | None, most: int
) -> None:
    """3 entries of 4 pages, in no order that could join any, or of 2 tokens each."""
    monkeypatch.setattr(bench_subject, "COLD_BYTES", 1)
    monkeypatch.setattr(patterns, "runtime", lambda: None)
    monkeypatch.setattr(patterns, "EACH_MAX", most + 1)
    subject = make(replace(PLAIN, peers=peers, listing=Listing.REVERSED), "cpu")
    assert len(patterns.copy_each(subject)) == 1
    monkeypatch.setattr(patterns, "EACH_MAX", most)
    with pytest.raises(LeftOutError, match=f"more than {most} copies"):
        patterns.copy_each(subject)


class TestSglang:
    @pytest.mark.parametrize("case", [
        PLAIN, Case("split", Operation.PACK, 2, 2, 4, 16, 6, 0.9,
                    (HeadRange(0, 3), HeadRange(3, 1))),
    ], ids=lambda case: case.name)  # fmt: skip
    def test_its_kernel_packs_the_same_chunks(self, case: Case) -> None:
        pytest.importorskip("sglang", reason=SGLANG)
        without_torchvision.install()
        subject = make(case, "cuda" if torch.cuda.is_available() else "cpu")
        baselines.prove(subject, "its kernel", sglang.kernel(subject))

    def test_cases_that_it_cannot_run_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sglang, "_module", lambda: None)
        odd = make(Case("odd", Operation.PACK, 3, 2, 4, 16, 8, 0.9), "cpu")
        with pytest.raises(LeftOutError, match="same number of K and V"):
            sglang.call(odd)
        monkeypatch.setattr(sglang, "GRID_MAX", 0)
        with pytest.raises(LeftOutError, match="has 1 blocks along y; 0 is the limit"):
            sglang.kernel(odd)
        with pytest.raises(LeftOutError, match="whole elements"):
            sglang.kernel(make(replace(PLAIN, base_bytes=1), "cpu"))
