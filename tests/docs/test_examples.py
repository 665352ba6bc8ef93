"""The short examples: they run, and say what their texts say."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples import lease_lock
from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.cli.main import main
from pdproto.spec.language import System
from tests.docs import by_hand
from tests.docs.documents import ROOT

LEASE = f"{ROOT / 'examples' / 'lease.py'}:SYSTEM"


def test_the_lease_has_one_holder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", LEASE, "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "4 states" in told  # free, or held by one of three
    assert main(["lint", LEASE]) == 0


def test_the_lease_without_its_guard_has_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = (ROOT / "examples" / "lease.py").read_text(encoding="utf-8").replace("when=free, ", "")
    (tmp_path / "lease_without_a_guard.py").write_text(broken, encoding="utf-8")
    assert main(["check", f"{tmp_path / 'lease_without_a_guard.py'}:SYSTEM", "--quiet"]) == 1
    assert "one_holder violated" in capsys.readouterr().out


@pytest.mark.parametrize(("system", "following"), [(lease_lock.SYSTEM, by_hand.lease_lock)])
def test_counts_are_those_of_a_search_by_hand(system: System, following: by_hand.Next) -> None:
    result = check(system, system.configurations["default"], CheckSettings())
    assert result.verdict is Verdict.HOLDS
    assert result.states == by_hand.states(following)


@pytest.mark.parametrize(("broken", "violated"), [(lease_lock.BROKEN, "no_write_comes_late")])
def test_the_broken_sibling_violates_one_property(broken: System, violated: str) -> None:
    result = check(broken, broken.configurations["default"], CheckSettings(keep_going=True))
    assert [f.name for f in result.findings if f.verdict is Verdict.VIOLATED] == [violated]


@pytest.mark.parametrize("name", ["lease_lock"])
def test_an_example_is_proved_for_every_size_and_lint_has_nothing_to_remark(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"{ROOT / 'examples' / name}.py:SYSTEM"
    assert main(["prove", target, "--quiet", "--no-cache"]) == 0
    assert " 0 failed, 0 unknown" in capsys.readouterr().out
    assert main(["lint", target]) == 0
    assert "nothing to remark" in capsys.readouterr().out


def test_two_nodes_hand_over_every_byte() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "hand_over.py"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("every byte is the same: True\n", "")


def test_a_toy_engine_answers_from_pages_that_were_handed_over() -> None:
    """Seen red with the pages of a prompt sent in the opposite order."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.toy_engine"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("10 of 10 answers are those of one process\n", "")
