"""The state file of `python -m lab soak`, and the legs of a soak."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.__main__ import main
from lab.soak.books import Totals
from lab.soak.memory import Growth
from lab.soak.state import (
    FORMAT,
    LEG_HANDOFFS,
    SoakSettings,
    SoakState,
    StateFileError,
    load,
    save,
)
from lab.verbs import soak

SETTINGS = SoakSettings(engines=("tcp", "shm"), handoffs=1_000_000)


def a_state() -> SoakState:
    return SoakState(
        settings=SETTINGS, totals=Totals(routed=7, reasons={"lost": 2}, complaints=["it leaks"]),
        faults={"kills": 1}, rests=3, seconds=1.5, parts=2, commits=["abc"], engines={"tcp": 7},
        growth={"decode": Growth(1, 2.5, 30)})


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    assert load(path, SETTINGS) == SoakState(settings=SETTINGS)
    save(path, a_state())
    assert load(path, SETTINGS) == a_state()
    assert list(tmp_path.iterdir()) == [path]


def test_a_state_is_never_written_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed while it writes."""
    path = tmp_path / "soak.json"
    save(path, a_state())

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    later = a_state()
    later.rests = 4
    with pytest.raises(KeyboardInterrupt):
        save(path, later)
    assert load(path, SETTINGS) == a_state()


def changed(path: Path, **changes: object) -> None:
    save(path, a_state())
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(("changes", "told"), [
    ({"format": FORMAT + 1}, f"has a state in format {FORMAT + 1}, and this release reads"),
    ({"version": "0.0.9"}, "has a state of pdproto 0.0.9, and this is"),
    ({"color": "red"}, "is no state of a soak"),
    ({"totals": 5}, "is no state of a soak"),
])
def test_an_older_or_foreign_state_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, object], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "soak.json"
    changed(path, **changes)
    before = path.read_text()
    assert main(["soak", "--handoffs", "1000000", "--engine", "tcp", "shm", "--resume", str(path)
                 ]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert path.read_text() == before


@pytest.mark.parametrize("text", ["", "# a page\n", "{}", "[1]", '{"format": "one"}', "\ufffd"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(StateFileError, match=r"page\.md is no state of a soak: name another file"):
        load(path, SETTINGS)


@pytest.mark.parametrize(("other", "told"), [
    (SoakSettings(engines=("tcp", "shm"), handoffs=1_000_000, seed=1), "seed 0, and not 1"),
    (SoakSettings(engines=("shm",), handoffs=1_000_000), "engines tcp shm, and not shm"),
    (SoakSettings(engines=("tcp", "shm"), seconds=600.0), "handoffs 1000000, and not None"),
])
def test_other_options_are_refused(tmp_path: Path, other: SoakSettings, told: str) -> None:
    path = tmp_path / "soak.json"
    save(path, a_state())
    with pytest.raises(StateFileError, match=f"of a soak with {told}: give the same options"):
        load(path, other)


def test_a_part_without_a_state_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--stop-after", "5"]) == 2
    assert "give --resume FILE too" in capsys.readouterr().err


def test_to_keep_going_without_a_state_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--keep-going"]) == 2
    assert "give --resume FILE too" in capsys.readouterr().err


@pytest.mark.parametrize(("more", "runs"), [((), 0), (("--keep-going",), 1)])
def test_a_soak_with_a_complaint_goes_on_only_if_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: Sequence[str], runs: int
) -> None:
    path, begun = tmp_path / "soak.json", []
    save(path, a_state())
    monkeypatch.setattr(soak, "run_soak", lambda state, **_: begun.append(state.is_over))
    assert main(["soak", "--handoffs", "1000000", "--engine", "tcp", "shm", "--resume", str(path),
                 *more]) == 1
    assert begun == [False] * runs


def legs(settings: SoakSettings, count: int) -> list[tuple[str, str | None]]:
    found = []
    state = SoakState(settings=settings)
    for leg in range(count):
        state.totals.routed = round(leg * settings.leg)
        state.seconds = leg * settings.leg
        assert state.leg == leg
        found.append((state.engine, state.spared(("a", "b"))))
    return found


def test_engines_take_turns_and_each_rank_is_spared_in_turn() -> None:
    assert SETTINGS.leg == LEG_HANDOFFS
    assert legs(SETTINGS, 8) == [
        ("tcp", "a"), ("shm", "a"), ("tcp", "b"), ("shm", "b"), ("tcp", None), ("shm", None),
        ("tcp", "a"), ("shm", "a")]


def test_a_short_soak_has_one_leg_for_each_engine() -> None:
    assert [engine for engine, _ in legs(SoakSettings(engines=("tcp", "shm"), seconds=8), 2)] == [
        "tcp", "shm"]
    assert SoakSettings(handoffs=100).leg == 100


def test_a_soak_is_over_at_its_end_or_with_a_complaint() -> None:
    state = SoakState(settings=SoakSettings(handoffs=100))
    told = [state.is_over]
    state.totals.routed = 100
    told.append(state.is_over)
    state = SoakState(settings=SoakSettings(seconds=60))
    told.append(state.is_over)
    state.totals.complaints.append("it leaks")
    assert [*told, state.is_over] == [False, True, False, True]


def test_a_soak_goes_on_after_the_complaints_that_are_known() -> None:
    state = SoakState(settings=SoakSettings(seconds=60), known=1)
    state.totals.complaints.append("it leaks")
    assert not state.is_over
    state.totals.complaints.append("it leaks again")
    assert state.is_over
