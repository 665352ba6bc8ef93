"""Measure packing and unpacking of KV chunks on this machine, against a copy of the same bytes.

`kernels/RESULTS.md` has results of other machines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

MINUTES: Final = 8.0
Unit = TypeVar("Unit")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab bench`."""
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto",
        help="where to measure (default: on a GPU if there is one, else on the CPU)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="the smallest cases only")
    parser.add_argument(
        "--cases", nargs="+", metavar="TEXT", help="only cases with one of these texts in the name"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES,
        help=f"on a GPU, start no case that would end later than this (default: {MINUTES:g})",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N",
        help="on a CPU, threads for each of our copies (default: 1)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument("--plot", type=Path, metavar="FILE",
                        help="draw the fractions as a picture (needs matplotlib)")


def run(arguments: argparse.Namespace) -> int:
    """Exit status: 0 measured, 2 this machine lacks the device, or no case has such a name."""
    from lab.bench import report  # noqa: PLC0415 - not for `pdproto --help`
    from pdproto.cli.options import check_targets  # noqa: PLC0415

    check_targets([str(path) for path in (arguments.json, arguments.markdown, arguments.plot)
                   if path is not None])

    cuda = arguments.device != "cpu" and _cuda()
    if arguments.device == "cuda" and not cuda:
        return _refused("no CUDA device here for torch and Triton (pip install 'pdproto[kernels]')")
    results = report.Results()
    try:
        if cuda:
            from lab.bench import device  # noqa: PLC0415

            units = _select_units(device.units(quick=arguments.quick), arguments.cases)
            device.measure(units, results, minutes=arguments.minutes)
        else:
            from lab.bench import host  # noqa: PLC0415

            threads = arguments.threads
            if threads < 1:
                return _refused(f"--threads: want 1 or more, got {threads}")
            units = host.units(quick=arguments.quick, threads=threads)
            host.measure(_select_units(units, arguments.cases), results, threads)
    except _NoCaseError as error:
        return _refused(str(error))
    finally:
        # Also if the run was stopped: the results so far are valid.
        if results.rows or results.numbers:
            report.publish(
                results,
                json_file=arguments.json,
                markdown_file=arguments.markdown,
                plot_file=arguments.plot,
            )
    return 0


def _refused(line: str) -> int:
    print(f"pdproto: {line}", file=sys.stderr)  # noqa: T201
    return 2


class _NoCaseError(Exception):
    """No case has this text in its name."""


def _select_units(units: Mapping[str, Unit], texts: Iterable[str] | None) -> dict[str, Unit]:
    """The units with one of the texts in the name; all units if there are no texts."""
    if texts is None:
        return dict(units)
    for text in texts:
        if not any(text.lower() in name.lower() for name in units):
            raise _NoCaseError(f"no case with {text!r} in its name, of: {'; '.join(units)}")
    return {
        name: unit for name, unit in units.items()
        if any(text.lower() in name.lower() for text in texts)
    }  # fmt: skip


def _cuda() -> bool:
    try:
        import torch  # noqa: PLC0415
        import triton  # noqa: F401, PLC0415 - the kernels need both
    except ImportError:
        return False
    return bool(torch.cuda.is_available())

