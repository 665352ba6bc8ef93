"""A trace that is accepted is a behaviour, by a search that shares no line with the replay."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.spec.handoff.transfer import SYSTEM
from tests.check.trace.alterations import write
from tests.check.trace.behaviours import Behaviours
from tests.check.trace.falsified import DECODE, Run, falsified_at_random
from tests.judging import judged, judges
from tests.tiers import examples

LIVES = range(6)


def lives_that_are_none(run: Run) -> list[int]:
    """The lives whose lines are no behaviour."""
    whole = Run()
    return [life for life in LIVES
            if not Behaviours(SYSTEM, run.files, whole.life(life)).exist()]


def test_the_golden_traces_are_behaviours() -> None:
    assert lives_that_are_none(Run()) == []


def test_a_stray_write_is_no_behaviour() -> None:
    run = Run()
    run.insert(DECODE, run.at(DECODE, 0, "end_lease") + 1, run.content(0))
    assert lives_that_are_none(run) == [0]


@judges(3)
@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(30, settings().max_examples))
def test_a_falsified_trace_that_is_accepted_is_a_behaviour(seed: int) -> None:
    """Without `Lives.examine` it finds a trace that is accepted, and is no behaviour."""
    run = falsified_at_random(Random(seed))  # noqa: S311 - no secret
    with TemporaryDirectory() as folder:
        paths = [write(lines, Path(folder) / f"{name}.jsonl")
                 for name, lines in run.numbered().items()]
        verified = verify(SYSTEM, paths)
    rejection = verified.rejection
    if rejection is None:
        assert lives_that_are_none(run) == []
        judged()
    elif "cannot have fired" in rejection.why:
        assert lives_that_are_none(run) != []
    assert verified.verdict is not Verdict.HOLDS or not verified.assumes
