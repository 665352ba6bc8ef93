"""`pdproto check --record`: the counts of each configuration, in a file."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from pdproto.check import counts
from pdproto.check.counts import Counts, Recorded, RecordedCounts, read, unconfirmed, written
from pdproto.check.load import LoadError
from pdproto.check.result import CheckResult
from pdproto.cli.main import main
from pdproto.cli.recording import record
from pdproto.cli.systems import COUNTS, load, recorded
from pdproto.spec.language import Configuration, Row, System
from tests.waiting import ended


def test_the_counts_of_each_configuration_are_written_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.json"
    others = {("another", "default"): RecordedCounts(Counts(1, 2, 3), None),
              ("agreement-loss", "default"): RecordedCounts(Counts(4, 5, 6), "earlier"),
              ("agreement-loss", "deep"): RecordedCounts(Counts(7, 8, 9), "earlier")}
    file.write_text(written(others), encoding="utf-8")
    assert main(["check", "agreement-loss", "--quiet", "--record", str(file)]) == 0
    found = read(file)
    assert found["another", "default"] == RecordedCounts(Counts(1, 2, 3), None)
    assert found["agreement-loss", "default"] == recorded()["agreement-loss", "default"]
    said = capsys.readouterr()
    assert "agreement-loss" in said.out
    assert said.err == (f"pdproto: {file}: the counts of agreement-loss deep may be of other "
                        f"tables: count again with --configuration deep --record {file}\n")


def test_writers_at_one_time_lose_no_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins between the reading and the writing of the first."""
    file, old = tmp_path / "counts.json", counts.with_results
    begun: list[Thread] = []

    def during(*given: Any) -> Recorded:
        if not begun:
            begun.append(Thread(target=record, args=(str(file), [found("second")])))
            begun[0].start()
            begun[0].join(0.3)
        return old(*given)

    monkeypatch.setattr(counts, "with_results", during)
    record(str(file), [found("first")])
    ended(begun[0])
    assert read(file).keys() == {("first", "default"), ("second", "default")}


def found(name: str) -> tuple[System, str, CheckResult]:
    """A whole search of a system of this name."""
    result: Any = SimpleNamespace(system=name, complete=True, states=1, transitions=2, depth=3)
    return replace(load("lock-server"), name=name), "default", result


def test_the_order_is_that_of_the_names() -> None:
    one = RecordedCounts(Counts(1, 2, 3), "of")
    known = {("b", "deep"): one, ("b", "a"): one, ("a", "x"): one}
    assert list(json.loads(written(known))) == ["a", "b"]
    assert list(json.loads(written(known))["b"]) == ["a", "deep"]


def test_the_file_has_a_line_for_each_configuration() -> None:
    lines = [line for line in COUNTS.read_text(encoding="utf-8").splitlines() if "states" in line]
    assert len(lines) == len(recorded())
    assert written(recorded()) == COUNTS.read_text(encoding="utf-8")


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


def counted(system: System) -> Recorded:
    return {(system.name, name): RecordedCounts(Counts(1, 2, 3), counts.tables(system, name))
            for name in system.configurations}


def test_a_count_of_other_tables_or_sizes_is_named() -> None:
    """A changed guard, property, size, fault layer or reduction; but no place and no reason."""
    one = load("agreement-loss")
    known, deep = counted(one), one.configurations["deep"]
    table = next(table for table in one.tables if any(row.why for row in table.rows))
    assert unconfirmed(known, one) == []

    def with_rows(*rows: Row) -> System:
        changed = replace(table, rows=rows)
        return replace(one, tables=tuple(changed if t is table else t for t in one.tables))

    def with_deep(configuration: Configuration) -> System:
        return replace(one, configurations={**one.configurations, "deep": configuration})

    reasons = with_rows(*(replace(row, why="another", place=one.place) for row in table.rows))
    assert unconfirmed(known, replace(reasons, about="Another.", place=table.place)) == []
    for changed in (with_rows(*table.rows[1:]), replace(one, properties=one.properties[1:]),
                    replace(one, final=None)):
        assert unconfirmed(known, changed) == [*one.configurations]
    for configuration in (replace(deep, dead_bits=not deep.dead_bits), replace(deep, faults=()),
                          replace(deep, symmetry=not deep.symmetry),
                          replace(deep, sizes={s: n + 1 for s, n in deep.sizes.items()})):
        assert unconfirmed(known, with_deep(configuration)) == ["deep"]
