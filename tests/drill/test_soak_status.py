"""The exit status of `python -m lab soak`, without processes."""

from typing import Any

import pytest

from lab.__main__ import main
from lab.soak.state import SoakState
from lab.verbs import soak


def ended(
    monkeypatch: pytest.MonkeyPatch, *options: str, compared: int, complaint: str = ""
) -> int:
    """The status of a soak that has handed over once, and compared so many bytes."""

    def run_soak(state: SoakState, **_: Any) -> None:
        state.totals.routed = state.totals.succeeded = 1
        state.totals.verified_bytes = compared
        state.totals.complaints += [complaint] if complaint else []
        state.rests = 1

    monkeypatch.setattr(soak, "run_soak", run_soak)
    return main(["soak", "--handoffs", "1", "--quiet", *options])


def test_a_soak_that_has_compared_no_byte_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, compared=8) == 0
    assert ended(monkeypatch, compared=0) == 3


def test_a_soak_that_has_not_shown_the_defect_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, "--bug", "B09", compared=8) == 3
    assert "--bug B09: this soak has not shown the defect" in capsys.readouterr().err
    assert ended(monkeypatch, "--bug", "B09", compared=8, complaint="it was shown") == 1
