"""The runs that need a GPU, each within a bound of time.

    python -m tests.project.gpu test      what must hold; `make test-gpu`
    python -m tests.project.gpu bench     measures the kernels, and writes kernels/RESULTS.md;
                                          `make bench-gpu`

Exit status: 0 all is right, 1 a step fails or the time is over, 2 there is no GPU.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "kernels/RESULTS.md"
MEASURED: Final = ROOT / "out/kernels.md"
MINUTES: Final = {"test": 8.0, "bench": 9.0}
TITLE: Final = "# Measured results of the kernels"
SECTION: Final = re.compile(r"(?<=^## GPU\n).*?(?=^## )", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """A command. needs: a program or a module of Python without which it is left out."""

    command: tuple[str, ...]
    needs: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether what it needs is installed."""
        return not self.needs or bool(shutil.which(self.needs) or find_spec(self.needs))


def _python(*arguments: str) -> tuple[str, ...]:
    return sys.executable, "-m", *arguments


# pytest-benchmark, where it is installed, warns of the workers, and a warning is an error.
PYTEST: Final = ("pytest", "-p", "no:benchmark", "-m", "gpu")
WORKERS: Final = min(8, os.cpu_count() or 1)  # most of the time goes into compiling kernels
HANDOFF: Final = _python("pdproto.cli.main", "handoff", "--device", "cuda")
STEPS: Final = {
    "test": (
        Step(_python(*PYTEST, "-n", str(WORKERS), "tests/kernels", "tests/pages")),
        # Two processes on one GPU: pages go from device to device, and through pinned host memory.
        Step((*HANDOFF, "--requests", "300", "--engine", "cuda-ipc", "--abort-rate", "0.2",
              "--kill")),
        *(Step((*HANDOFF, "--requests", "300", "--engine", "nixl-gpu", "--kill"), needs=library)
          for library in ("nixl_cu12", "nixl_cu13")),
        Step((*HANDOFF, "--requests", "300", "--engine", "shm", "--abort-rate", "0.2")),
        Step((*HANDOFF, "--requests", "300", "--engine", "tcp", "--kill")),
        Step(("compute-sanitizer", "--error-exitcode", "1",
              *_python(*PYTEST, "tests/kernels/test_chunk.py", "-k", "cuda")),
             needs="compute-sanitizer"),
    ),
    "bench": (
        Step(_python("lab", "bench", "--device", "cuda", "--minutes", "8",
                     "--json", "out/kernels.json", "--markdown", str(MEASURED))),
    ),
}


def no_gpu() -> str | None:
    """Why this machine cannot run them; None if it can."""
    try:
        import torch  # noqa: PLC0415 - it may be missing
    except ImportError:
        return "torch is not installed: make installed"
    if torch.cuda.is_available():
        return None
    return f"torch {torch.__version__} finds no NVIDIA GPU here"


def results_with(text: str, measured: str) -> str:
    """RESULTS.md with these tables of a GPU in place of the note that there are none."""
    changed, count = SECTION.subn(lambda _: f"\n{measured.strip()}\n\n", text, count=1)
    if not count:
        raise ValueError(f"{RESULTS.name} has no section GPU")
    return re.sub(r"\A#.*", TITLE, changed)


def run(steps: Sequence[Step], minutes: float) -> bool:
    """Run the steps in order. Returns whether all were right in time; the others say so."""
    end = monotonic() + 60 * minutes
    for step in steps:
        told = " ".join(step.command)
        if not step.is_possible:
            print(f"left out, because {step.needs} is not installed: {told}")  # noqa: T201
            continue
        print(told, flush=True)  # noqa: T201
        try:
            done = subprocess.run(step.command, cwd=ROOT, check=False,
                                  timeout=max(0.0, end - monotonic()))
        except subprocess.TimeoutExpired:
            print(f"not done after {minutes:g} minutes: {told}", file=sys.stderr)  # noqa: T201
            return False
        if done.returncode:
            print(f"exit status {done.returncode}: {told}", file=sys.stderr)  # noqa: T201
            return False
    return True


def main(task: str) -> int:
    """Do a task of STEPS. Returns the exit status."""
    why = no_gpu()
    if why is not None:
        print(f"make {task}-gpu: {why}", file=sys.stderr)  # noqa: T201
        return 2
    MEASURED.parent.mkdir(exist_ok=True)
    if not run(STEPS[task], MINUTES[task]):
        return 1
    if task == "bench":
        RESULTS.write_text(results_with(RESULTS.read_text(), MEASURED.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
