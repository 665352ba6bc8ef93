"""`pdproto check --record`: the counts of each configuration, in a file."""

import json
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from pdproto.check import counts
from pdproto.check.counts import Counts, Recorded, read, written
from pdproto.check.load import LoadError
from pdproto.check.result import CheckResult
from pdproto.cli.main import main
from pdproto.cli.recording import record
from pdproto.cli.systems import COUNTS, expected


def test_the_counts_of_each_configuration_are_written_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.json"
    others = {("another", "default"): Counts(1, 2, 3),
              ("agreement-loss", "default"): Counts(4, 5, 6)}
    file.write_text(written(others), encoding="utf-8")
    assert main(["check", "agreement-loss", "--quiet", "--record", str(file)]) == 0
    found = read(file)
    assert found["another", "default"] == Counts(1, 2, 3)
    assert found["agreement-loss", "default"] == expected()["agreement-loss", "default"]
    assert "agreement-loss" in capsys.readouterr().out


def test_writers_at_one_time_lose_no_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins between the reading and the writing of the first."""
    file, old = tmp_path / "counts.json", counts.with_results
    begun: list[Thread] = []

    def during(*given: Any) -> Recorded:
        if not begun:
            begun.append(Thread(target=record, args=(str(file), [("default", found("second"))])))
            begun[0].start()
            begun[0].join(0.3)
        return old(*given)

    monkeypatch.setattr(counts, "with_results", during)
    record(str(file), [("default", found("first"))])
    begun[0].join()
    assert read(file).keys() == {("first", "default"), ("second", "default")}


def found(system: str) -> CheckResult:
    """A whole search of a system of this name."""
    result: Any = SimpleNamespace(system=system, complete=True, states=1, transitions=2, depth=3)
    return result  # type: ignore[no-any-return]


def test_the_order_is_that_of_the_names() -> None:
    one = Counts(1, 2, 3)
    known = {("b", "deep"): one, ("b", "a"): one, ("a", "x"): one}
    assert list(json.loads(written(known))) == ["a", "b"]
    assert list(json.loads(written(known))["b"]) == ["a", "deep"]


def test_the_file_has_a_line_for_each_configuration() -> None:
    lines = [line for line in COUNTS.read_text(encoding="utf-8").splitlines() if "states" in line]
    assert len(lines) == len(expected())
    assert written(expected()) == COUNTS.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", [
    ["--size", "Client=2"], ["--faults", "none"], ["--property", "mutual_exclusion"],
    ["--no-symmetry"], ["--engine", "portable"],
], ids=lambda option: option[0])
def test_only_a_declared_size_is_recorded(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.json"
    assert main(["check", "lock-server", "--record", str(file), *option]) == 2
    name = option[0].replace("--no-", "--")
    assert f"leave out {name}" in capsys.readouterr().err
    assert not file.exists()


def test_a_search_that_stopped_has_no_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.json"
    assert main(["check", "lock-server-broken", "--no-keep-going", "--quiet", "--record",
                 str(file)]) == 2
    assert "was not explored to its end" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"a": {"default": {"states": 1}}})])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError, match="not the counts of `pdproto check --record`"):
        read(file)
