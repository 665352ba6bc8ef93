"""The cost of a state in a search out of core, beside our native engine.

    python -m tests.bench.bench_out_of_core [PARTICIPANTS [MIB]]

explores two-phase commit (default: 9 participants, 10,340,352 states) with the native engine and
with DuckDB, each with one thread, and prints microseconds a state. DuckDB has so many MiB of memory
(default: 512), and the rest on disk.
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter

from pdproto.check.engine import Engine
from pdproto.check.explore import STATES_PER_STEP, program
from pdproto.check.native import NativeEngine
from pdproto.check.out_of_core import DuckDbEngine
from pdproto.ground.grounding import Ground
from pdproto.spec.examples.two_phase_commit import SYSTEM, Participant


def cost(engine: Engine) -> tuple[int, float]:
    """The states, and the microseconds for each."""
    began = perf_counter()
    while engine.step(STATES_PER_STEP):
        pass
    return engine.states, (perf_counter() - began) / engine.states * 1e6


def main() -> int:
    """Print one line."""
    participants, mib = (*map(int, sys.argv[1:]), *(9, 512)[len(sys.argv) - 1 :])
    form = program(Ground(SYSTEM, {Participant: participants}))
    states, native = cost(NativeEngine(form, workers=1))
    with tempfile.TemporaryDirectory() as folder:
        engine = DuckDbEngine(form, workers=1, bytes_max=mib << 20, folder=Path(folder))
        found, disk = cost(engine)
        engine.close()
        written = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    assert found == states
    print(  # noqa: T201 - this is a command
        f"two-phase commit, {participants} participants, {states:,} states, one thread: native "
        f"{native:.2f} us a state; DuckDB in {mib} MiB {disk:.2f} us, {disk / native:.0f} times, "
        f"and {written / states:.0f} bytes a state on disk"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
