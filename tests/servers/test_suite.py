"""The suite of cells is bounded in time, and says what it has not run. No server is started."""

import ctypes
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from examples.sglang_servers.without_gpu import FLAGS
from tests.servers import machine, suite
from tests.servers.kept_pair import Loading
from tests.servers.record import Cell, Record
from tests.servers.suite import Finding, Suite, TooLateError, run

TOLD: Final = Namespace(quick=False, only=None, defects=False, seconds=None)
CELLS: Final = (Cell("first", "", "", "", "planted", quick=True),
                Cell("second", "", "", "", "planted", quick=True))


@dataclass
class Empty:
    """A stage without servers."""

    defect: str | None = None
    ended: list[bool] = field(default_factory=list)
    loading: Loading = field(default_factory=Loading)

    def end(self) -> None:
        self.ended.append(True)


def of(check: Callable[[Empty, Cell], Finding], folder: Path) -> Suite[Empty]:
    record = Record(CELLS, folder / "page.md", folder / "seen.json", "", "", str)
    return Suite(record, Empty, check)


def passes(_: Empty, __: Cell) -> Finding:
    return Finding(1, 1)


def hangs(_: Empty, cell: Cell) -> Finding:
    if cell.name == "first":
        time.sleep(30.0)
    return Finding(1, 1)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_cell_that_hangs_ends_in_time_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "CELL_S", 0.2)
    assert run(of(hangs, tmp_path), TOLD) == 1
    first, second, end = said(capsys)
    assert "RED" in first
    assert "not done after 0 s" in first
    assert "green" in second
    assert end.startswith("1 of 2 cells, ")


def test_servers_that_start_slowly_take_no_time_of_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "CELL_S", 0.2)

    def loads(stage: Empty, cell: Cell) -> Finding:
        with stage.loading:
            time.sleep(0.5)
        return hangs(stage, cell)

    assert run(of(loads, tmp_path), TOLD) == 1
    first, second, _ = said(capsys)
    assert "not done after 0 s" in first
    assert "green" in second


@pytest.mark.parametrize("defects", [False, True])
def test_no_cell_begins_after_the_limit_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], defects: bool
) -> None:
    def slow(_: Empty, __: Cell) -> Finding:
        time.sleep(0.1)
        raise AssertionError("planted")

    told = Namespace(**{**vars(TOLD), "seconds": 0.05, "defects": defects})
    assert run(of(slow, tmp_path), told) == 1
    first, second, _ = said(capsys)
    assert "not begun" not in first
    assert "not begun: 0 s are over" in second


@pytest.mark.parametrize(("quick", "begun"), [(True, 1), (False, 2)])
def test_the_quick_subset_has_a_limit_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: bool, begun: int
) -> None:
    told = Namespace(**{**vars(TOLD), "quick": quick})

    def slow(_: Empty, __: Cell) -> Finding:
        time.sleep(0.3)
        return Finding(1, 1)

    status = run(replace(of(slow, tmp_path), quick_s=0.2), told)
    lines = said(capsys)
    assert status == int(quick)
    assert sum("not begun: 0 s are over" in line for line in lines) == 2 - begun


def test_a_cell_that_takes_too_long_under_its_defect_does_not_count_as_seen_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "CELL_S", 0.2)
    assert run(of(hangs, tmp_path), Namespace(**{**vars(TOLD), "defects": True})) == 1
    assert "BLIND: TooLateError" in said(capsys)[0]
    assert not (tmp_path / "seen.json").exists()


def test_a_cell_that_the_machine_cannot_run_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = replace(of(passes, tmp_path), refused={"second": "there is no lake"},
                    untested=["water: it is dry here"])
    assert run(whole, TOLD) == 0
    assert said(capsys)[:2] == ["not tested on this machine: water: it is dry here",
                                "second: not run: there is no lake"]


def test_a_missing_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    (why,) = machine.refused().values()
    assert "libibverbs.so.1, which is not here (Debian: apt-get install libibverbs1)" in why
    assert list(machine.refused()) == ["Mooncake"]


def test_whatever_servers_switch_off_is_said() -> None:
    assert set(machine.UNTESTED) <= set(FLAGS), "a line about a flag that no server has"
    assert len(machine.untested()) == len(machine.UNTESTED)


def test_the_time_limit_of_a_body_is_taken_back() -> None:
    with pytest.raises(TooLateError, match="not done after 0 s"), suite.within(0.05):
        time.sleep(5.0)
    with suite.within(5.0):
        time.sleep(0.1)
