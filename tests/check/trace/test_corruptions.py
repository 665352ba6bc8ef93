"""Falsified traces: each is rejected, or incomplete, or legitimate for a stated reason."""

from pathlib import Path

import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.cli.trace import WORDS
from pdproto.spec.handoff.transfer import SYSTEM
from tests.check.trace.alterations import write
from tests.check.trace.corruptions import CONFORMS, CORRUPTIONS, REJECTED
from tests.check.trace.falsified import Run


def judged(run: Run, folder: Path) -> tuple[str, str]:
    """The answer, and its reasons."""
    paths = [write(lines, folder / f"{name}.jsonl") for name, lines in run.numbered().items()]
    verified = verify(SYSTEM, paths)
    rejection = verified.rejection
    reasons = (*verified.missing, *verified.assumes) if rejection is None else (
        rejection.why, rejection.claim)
    return WORDS[verified.verdict], "; ".join(reasons)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_falsified_trace(name: str, tmp_path: Path) -> None:
    corruption, run = CORRUPTIONS[name], Run()
    corruption.do(run)
    answer, reasons = judged(run, tmp_path)
    assert answer == corruption.answer, reasons
    assert corruption.answer == CONFORMS or corruption.because in reasons


def test_the_trace_conforms_as_it_is(tmp_path: Path) -> None:
    assert judged(Run(), tmp_path) == (WORDS[Verdict.HOLDS], "")


def test_there_are_more_than_sixty() -> None:
    assert len(CORRUPTIONS) > 60
    assert sum(corruption.answer == REJECTED for corruption in CORRUPTIONS.values()) > 60
