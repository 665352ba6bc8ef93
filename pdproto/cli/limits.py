"""The limits of a search that verbs share: --max-states and --max-memory."""

import argparse
import os
from math import isfinite
from pathlib import Path
from typing import Final

from pdproto.check.explore import SearchLimits
from pdproto.cli.options import whole_number

GIB: Final = 1 << 30
MEMORY_SHARE: Final = 0.75  # of the free memory: reports and other processes need the rest


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add --max-states and --max-memory, which `limits` reads."""
    parser.add_argument(
        "--max-states", metavar="N", type=whole_number, help="give up after N states"
    )
    parser.add_argument(
        "--max-memory", metavar="GIB", type=_gib,
        help="give up when the states take this much (default: 3/4 of the free memory)",
    )


def limits(arguments: argparse.Namespace, *, searches: int = 1) -> SearchLimits:
    """The limits of each of so many searches, which share the memory."""
    gib = arguments.max_memory
    total = int(gib * GIB) if gib is not None else int(free_bytes() * MEMORY_SHARE)
    return SearchLimits(arguments.max_states, total // searches)


def free_bytes() -> int:
    """The free memory in bytes; on Linux with the memory of file caches."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gib(text: str) -> float:
    try:
        gib = float(text)
    except ValueError:
        gib = 0.0
    if not (isfinite(gib) and gib > 0):
        raise argparse.ArgumentTypeError(f"want GiB above 0, not {text!r}")
    return gib
