"""`pdproto trace` against the interpreter, on random runs of random systems."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, note, reject, settings
from hypothesis import strategies as st

from pdproto.check.result import Verdict
from pdproto.check.trace.shared import SharedReplay
from pdproto.check.trace.verify import verify
from pdproto.spec.language import SpecError, System
from tests.check.systems import SIZES, systems
from tests.check.trace.shared_oracle import (
    RandomRun,
    SharedOracle,
    altered,
    kept,
    put,
    read,
    replayed,
)
from tests.judging import judged, judges
from tests.tiers import examples

STEPS = 20
RUNS = settings(
    max_examples=examples(5, settings().max_examples),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.mark.slow
@judges(40)
@given(st.one_of(systems(), systems(channels=True)), st.sampled_from([(), ("node",)]),
       st.integers(0, 7))
@RUNS
def test_a_trace_is_accepted_exactly_if_the_interpreter_allows_it(
    system: System, together: tuple[str, ...], seed: int
) -> None:
    """The trace of a run, and the trace with a line dropped, swapped or replaced. Each node has a
    trace of its own, or one process runs them all. No property is found
    violated that the run keeps.
    """
    random = Random(seed)  # noqa: S311 - no secret
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            run = RandomRun(system, SIZES, random, together)
            paths = run.record(folder, STEPS)
        except SpecError:  # a store cannot look the cells up
            reject()
        replay = SharedReplay(system, paths, from_middle=False)
        assert replay.run() is None
        assert replayed(replay, SIZES) == kept(system, run.store)
        rejection = verify(system, paths).rejection
        assert rejection is None or rejection.claim in run.violated
        files = read(paths)
        assert SharedOracle(system, SIZES, files).conforms()
        for number, lines in enumerate(files):
            for kind, other in altered(system, SIZES, lines, random):
                one = [*files[:number], other, *files[number + 1:]]
                result = verify(system, put(one, folder))
                allowed = SharedOracle(system, SIZES, one).conforms()
                note(f"{kind}: {result.rejection}")
                if result.rejection is not None and result.rejection.claim:
                    assert allowed  # each line conforms, and a property is violated
                else:
                    assert (result.verdict is Verdict.HOLDS) == allowed
                if not allowed:
                    judged()
