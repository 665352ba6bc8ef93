"""The cost of a state in a search out of core, beside our native engine.

    python -m tests.bench.bench_out_of_core [PARTICIPANTS [MIB]]

explores two-phase commit (default: 9 participants, 10,340,352 states) with the native engine and
with DuckDB, each with one thread, and prints microseconds a state. DuckDB has so many MiB of memory
(default: 512), and the rest on disk. Where PySpark is installed (`make test-spark`), Spark does the
same in a local session that has begun, also with one thread.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from pdproto.check.engine import Engine
from pdproto.check.explore import STATES_PER_STEP, program
from pdproto.check.native import NativeEngine
from pdproto.check.out_of_core import DuckDbEngine
from pdproto.check.spark.table import SparkEngine
from pdproto.ground.grounding import Ground
from pdproto.ground.program import Program
from pdproto.spec.examples.two_phase_commit import SYSTEM, Participant


def cost(engine: Engine) -> tuple[int, float]:
    """The states, and the microseconds for each."""
    began = perf_counter()
    while engine.step(STATES_PER_STEP):
        pass
    return engine.states, (perf_counter() - began) / engine.states * 1e6


def on_disk(name: str, engine: Engine, folder: str, native: tuple[int, float]) -> str:
    """The cost of an engine with its states in that folder, beside that of the native engine."""
    found, disk = cost(engine)
    engine.close()
    written = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    states, memory = native
    assert found == states
    return (f"{name} {disk:.2f} us, {disk / memory:.0f} times, and {written / states:.0f} bytes a "
            f"state on disk")


def in_spark(form: Program, native: tuple[int, float]) -> str:
    """The cost in Spark, after a small search has started its processes."""
    small = program(Ground(SYSTEM, {Participant: 3}))
    cost(SparkEngine(small, workers=1))
    with tempfile.TemporaryDirectory() as folder:
        return on_disk("Spark", SparkEngine(form, workers=1, folder=folder), folder, native)


def main() -> int:
    """Print one line."""
    participants, mib = (*map(int, sys.argv[1:]), *(9, 512)[len(sys.argv) - 1 :])
    form = program(Ground(SYSTEM, {Participant: participants}))
    native = cost(NativeEngine(form, workers=1))
    with tempfile.TemporaryDirectory() as folder:
        engine = DuckDbEngine(form, workers=1, bytes_max=mib << 20, folder=folder)
        told = [on_disk(f"DuckDB in {mib} MiB", engine, folder, native)]
    if find_spec("pyspark") is not None:
        told.append(in_spark(form, native))
    print(  # noqa: T201 - this is a command
        f"two-phase commit, {participants} participants, {native[0]:,} states, one thread: native "
        f"{native[1]:.2f} us a state; {'; '.join(told)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
