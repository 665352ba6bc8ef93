"""SPIN on an exported model."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Final

from pdproto.check.opinions.opinion import FailedError, NotInstalledError, Opinion
from pdproto.check.opinions.promela import promela
from pdproto.ground.grounding import Ground

COMPILER: Final = ("gcc", "-O2", "-DSAFETY", "-DNOREDUCE", "-DVECTORSZ=8192", "-o", "pan", "pan.c")
DEPTH_MAX: Final = 10_000  # steps of one path; our examples need a few dozen


@dataclass(frozen=True, slots=True)
class SpinRun:
    """The report of `pan`. seconds: of the search alone, by the clock; mib: all its memory.

    processor_seconds: the time of a core that the search used, which other load disturbs less.
    """

    states: int
    transitions: int
    errors: int
    seconds: float
    processor_seconds: float
    mib: float


def available() -> bool:
    """Whether SPIN and a C compiler are installed."""
    return all(shutil.which(tool) for tool in ("spin", "gcc"))


def spin(model: str, *, table_bits: int = 24, keep_going: bool = False) -> SpinRun:
    """Compile a Promela model and search it. table_bits: 2 to this power hash slots.

    keep_going: go on after the first error, to count all states. Raises
    subprocess.CalledProcessError if SPIN, the compiler or the search fails, and ValueError if the
    search was cut short.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.pml").write_text(model, encoding="utf-8")
        for command in (("spin", "-a", "model.pml"), COMPILER):
            subprocess.run(  # noqa: S603 - fixed names of programs, and numbers
                command, cwd=folder, check=True, capture_output=True)
        search = ["./pan", f"-m{DEPTH_MAX}", f"-w{table_bits}", *(["-c0"] if keep_going else [])]
        used, began = _processor_seconds(), perf_counter()
        done = subprocess.run(  # noqa: S603 - as above
            search, cwd=folder, check=True, capture_output=True, text=True)
        seconds, used = perf_counter() - began, _processor_seconds() - used
    if "max search depth too small" in done.stdout:
        raise ValueError(f"SPIN's search needs paths of more than {DEPTH_MAX:,} steps")
    return SpinRun(
        states=int(_number(r"(\S+) states, stored", done.stdout)),
        transitions=int(_number(r"(\S+) transitions", done.stdout)),
        errors=int(_number(r"errors: (\S+)", done.stdout)),
        seconds=seconds,
        processor_seconds=used,
        mib=_number(r"(\S+)\s+total actual memory usage", done.stdout),
    )


def ask(ground: Ground) -> Opinion:
    """SPIN's states, and whether it refuted any safety property; it does not say which.

    Raises NotInstalledError and FailedError.
    """
    if not available():
        raise NotInstalledError("spin or gcc is not installed: apt-get install spin gcc libc6-dev")
    began = perf_counter()
    try:
        run = spin(promela(ground), keep_going=True)
    except subprocess.CalledProcessError as error:
        told = str(error.stdout or error.stderr)[-300:]
        raise FailedError(f"{error.cmd[0]} ended with {error.returncode}: {told}") from error
    except ValueError as error:
        raise FailedError(str(error)) from error
    return Opinion("spin", run.states, run.errors == 0, None, perf_counter() - began)


def _processor_seconds() -> float:
    """Of all child processes that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _number(pattern: str, report: str) -> float:
    found = re.search(pattern, report)
    if found is None:
        raise ValueError(f"SPIN's report has no {pattern!r}:\n{report}")
    return float(found[1])
