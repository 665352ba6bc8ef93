"""Every figure of docs/reference/speed.md, measured on this machine: `python -m tests.bench`."""

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Final

# Of these it prints the seconds, and those of the processor.
COMMANDS: Final = (("check", "--no-cache"), ("bugs",), ("prove", "--no-cache"),
                   ("prove", "--engine", "both", "--no-cache"))

BENCHES: Final = ("tests.bench.bench_search", "tests.bench.bench_liveness",
                  "tests.bench.bench_answers", "tests.bench.bench_spin",
                  "tests.bench.bench_functions", "tests.bench.bench_interactive",
                  "tests.bench.bench_engine", "tests.bench.bench_direct",
                  "tests.bench.bench_control", "tests.bench.bench_flood",
                  "tests.bench.bench_registry", "tests.bench.bench_registry_store",
                  "tests.bench.bench_chunks", "tests.bench.bench_closing",
                  "tests.bench.bench_floor",
                  "tests.bench.bench_release", "tests.bench.bench_dispatch",
                  "tests.bench.bench_group", "tests.bench.bench_memory",
                  "tests.bench.bench_trace", "tests.bench.bench_spans", "tests.bench.bench_sim",
                  "tests.bench.bench_keys", "tests.bench.bench_prompts",
                  "tests.bench.bench_operator",
                  "tests.bench.bench_stages", "tests.bench.bench_turns",
                  "tests.bench.bench_device_calls", "tests.bench.bench_peers")


def main() -> int:
    """Run the benches one after the other; 1 if one of them fails (SPIN or etcd may be missing)."""
    failed = 0
    for module in BENCHES:
        print(f"\n{module}", flush=True)  # noqa: T201 - this is a command
        status = subprocess.run([sys.executable, "-m", module], check=False).returncode
        failed |= status not in (0, 2)
    for words in COMMANDS:
        print(f"\npdproto {' '.join(words)}", flush=True)  # noqa: T201 - this is a command
        failed |= _timed([sys.executable, "-m", "pdproto.cli.main", *words]) != 0
    return int(failed)


def _timed(command: list[str]) -> int:
    """Run a command without its output, and print its seconds; returns its exit status."""
    began, before = perf_counter(), getrusage(RUSAGE_CHILDREN)
    status = subprocess.run(command, check=False, capture_output=True).returncode
    after = getrusage(RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{perf_counter() - began:.1f} s, {spent:.1f} s of processors; exit status {status}")  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
