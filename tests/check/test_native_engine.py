"""The native engine alone: threads, limits, memory that cannot be had, and misuse."""

import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pdproto.check import native
from pdproto.check.native import NativeEngine
from pdproto.ground.program import (
    Program,
    Stripe,
    Symmetry,
)
from tests.check.engines import ONE_BIT, everything, explored, needs_compiler
from tests.check.programs import TWO_PHASE_COMMIT_STATES, counters, two_phase_commit


@needs_compiler
@pytest.mark.parametrize("symmetric", [False, True])
def test_results_do_not_depend_on_workers_or_steps(*, symmetric: bool) -> None:
    """296,448 states are enough for threads, many rounds and every table to be doubled often."""
    program = two_phase_commit(7, symmetric=symmetric)
    program = Program(
        program.bits,
        program.initial,
        program.rows,
        program.progress,
        patterns=tuple(row.guard for row in program.rows),
        symmetry=program.symmetry,
    )
    results = [
        everything(explored(NativeEngine(program, workers=workers), states_max))
        for workers, states_max in [(1, 1 << 30), (2, 1 << 30), (3, 1), (64, 10_000)]
    ]
    assert len(results[0][2]) == len(program.rows)  # type: ignore[arg-type]
    assert all(result == results[0] for result in results)
    if not symmetric:
        assert results[0][0] == TWO_PHASE_COMMIT_STATES[7]


@needs_compiler
def test_steps_are_about_as_long_as_asked() -> None:
    """A level of many states is expanded in several steps, and a step ends with its level."""
    engine = NativeEngine(counters([40] * 3, bits_each=6), workers=1)
    inside = 0
    while engine.step(1):
        inside += not engine.at_level_end
    assert engine.states == 41**3
    assert len(engine.levels) == 121
    assert inside == 0
    engine = NativeEngine(Program(17, tuple(range(100_000)), (), ()), workers=2)
    while engine.step(1):
        inside += not engine.at_level_end
    assert inside > 1
    assert engine.levels == (100_000,)


@needs_compiler
@pytest.mark.parametrize(
    ("bytes_max", "shard_max"), [(80_000, 1 << 28), (250_000, 1 << 28), (1 << 64 - 1, 200)]
)
def test_a_limit_stops_the_search_between_rounds(bytes_max: int, shard_max: int) -> None:
    """What was found stays true: it is what an engine without a limit has after as many rounds."""
    program = two_phase_commit(5)
    limited = NativeEngine(program, workers=2, bytes_max=bytes_max, shard_max=shard_max)
    with pytest.raises(MemoryError, match="no memory for more than"):
        explored(limited)
    assert 0 < limited.states < TWO_PHASE_COMMIT_STATES[5]
    assert limited.bytes <= bytes_max
    free = NativeEngine(program, workers=1)
    while free.states - free.frontier < limited.states - limited.frontier:
        free.step(1)
    with pytest.raises(MemoryError):
        limited.step(1)
    assert limited.levels[:-1] == free.levels[: len(limited.levels) - 1]
    assert everything(limited, sample=7)[2:] == everything(free, sample=7)[2:]


@needs_compiler
def test_not_even_the_initial_states_fit() -> None:
    with pytest.raises(MemoryError, match="1 initial states"):
        NativeEngine(ONE_BIT, workers=1, bytes_max=100)


@needs_compiler
def test_many_initial_states() -> None:
    """More than one box can take, so that they are stored in several rounds."""
    initial = tuple(range(50_000))
    engine = explored(NativeEngine(Program(16, initial, (), ()), workers=1))
    assert (engine.states, engine.levels) == (50_000, (50_000,))


STARVED = """
import resource
from pdproto.check.native import NativeEngine
from tests.check.programs import counters

program = counters([7] * 8, bits_each=3)
engine = NativeEngine(program, workers=2)
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (96 << 20),) * 2)
try:
    while engine.step(1 << 20):
        pass
except MemoryError:
    expanded = engine.states - engine.frontier
    assert engine.step.__name__ and 10_000 < engine.states < 8**8
    for identity in (engine.identity(p) for p in range(0, engine.states, 1009)):
        parent = engine.parent(identity)
        if parent is not None:
            steps = program.steps(engine.state(parent))
            assert engine.state(identity) in [target for _, target in steps]
        assert engine.find(engine.state(identity)) == identity
    assert int(engine.fired.sum()) >= expanded
    print("stopped cleanly")
"""


@needs_compiler
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_memory_that_cannot_be_had_stops_the_search() -> None:
    """In a process whose address space is limited, so that an allocation really fails."""
    assert resource.RLIMIT_AS
    done = subprocess.run(
        [sys.executable, "-c", STARVED], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "stopped cleanly", done.stderr


CRAMPED = """
import resource
import numpy as np
from pdproto.check.engine import Assumptions
from pdproto.check.native import NativeEngine
from pdproto.ground.program import Action, Guard, Program

flips = [Action(Guard(1 << i, v << i), 1 << i, (1 - v) << i) for i in range(20) for v in (0, 1)]
program = Program(20, (0,), tuple(flips), (True,) * len(flips))
engine = NativeEngine(program, workers=1)
while engine.step(1 << 20):
    pass
rows = len(program.rows)
assumed = Assumptions(1, np.ones(rows, np.uint8), np.zeros(rows, bool),
                      np.arange(rows, dtype=np.uint32))
every = np.ones(engine.states, bool)
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (held + (6 << 20), most))
try:
    engine.traps(every, every, assumed)
except MemoryError as error:
    assert str(error) == "no memory to look for fair runs among 1,048,576 states", error
else:
    raise AssertionError("it fitted")
resource.setrlimit(resource.RLIMIT_AS, (most, most))
assert engine.traps(every, every, assumed).where.all()
print("stopped cleanly")
"""


@needs_compiler
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_liveness_that_does_not_fit_is_given_up() -> None:
    """On a path through most corners of a cube of 20 dimensions. Its memory is given back."""
    assert resource.RLIMIT_AS
    done = subprocess.run(
        [sys.executable, "-c", CRAMPED], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "stopped cleanly", done.stderr


@needs_compiler
def test_edges_can_be_asked_for_again() -> None:
    """Also when the search has gone on meanwhile, as if they had not been asked for before."""
    program = two_phase_commit(5)
    engine = NativeEngine(program, workers=2)
    while engine.step(1 << 20):
        part = engine.edges()
        assert len(part.starts) == engine.states + 1
        assert part.starts[-1] == len(part.targets) == len(part.rows)
    fresh = explored(NativeEngine(program, workers=1))
    assert everything(engine, sample=7) == everything(engine, sample=7)
    assert everything(engine, sample=7) == everything(fresh, sample=7)


@needs_compiler
def test_a_closed_engine_says_so() -> None:
    engine = NativeEngine(ONE_BIT, workers=1)
    engine.close()
    engine.close()
    for ask in (engine.step, engine.state, engine.find):
        with pytest.raises(ValueError, match="closed"):
            ask(0)


@needs_compiler
def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="workers: want 1 or more, got 0"):
        NativeEngine(ONE_BIT, workers=0)
    with pytest.raises(ValueError, match="at most 32768"):
        NativeEngine(Program(1 << 20, (0,), (), ()), workers=1)
    outside = Symmetry(stripes=(Stripe((0, 64), width=1),))
    with pytest.raises(ValueError, match="outside the 1 words"):
        NativeEngine(Program(2, (0,), (), (), symmetry=outside), workers=1)


@needs_compiler
def test_no_memory_for_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(search_open=lambda *_: None)
    monkeypatch.setattr(native, "_library", lambda: library)
    with pytest.raises(MemoryError, match="for the search engine"):
        NativeEngine(ONE_BIT, workers=1)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_spec", lambda _: None)
    for function in (native.available, native._library):
        function.cache_clear()
    try:
        assert not native.available()
        with pytest.raises(ImportError, match="install a C compiler and reinstall"):
            NativeEngine(ONE_BIT, workers=1)
    finally:
        for function in (native.available, native._library):
            function.cache_clear()


@needs_compiler
def test_a_library_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    native._library.cache_clear()
    monkeypatch.setattr("ctypes.sizeof", lambda _: 8)
    with pytest.raises(ImportError, match="compiled from other sources: reinstall"):
        NativeEngine(ONE_BIT, workers=1)
