"""Measure on this machine. Numbers vary with it; `kernels/RESULTS.md` has some that were kept."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what can be measured."""
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
    kernels = subjects.add_parser(
        "kernels", help="packing and unpacking of KV chunks, against a copy of the same bytes"
    )
    kernels.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto",
        help="where to measure (default: on a GPU if there is one, else on the CPU)",
    )  # fmt: skip
    kernels.add_argument("--quick", action="store_true", help="the smallest cases only")
    kernels.add_argument("--json", type=Path, metavar="FILE", help="write every number as JSON")
    kernels.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    kernels.add_argument("--plot", type=Path, metavar="FILE", help="draw them (needs matplotlib)")


def run(arguments: argparse.Namespace) -> int:
    """Exit status: 0 measured, 2 the device that was asked for is not there."""
    from pdproto.cli import bench_report  # noqa: PLC0415 - not for `pdproto --help`

    device = arguments.device
    if device != "cpu" and not _cuda():
        if device == "cuda":
            line = "no CUDA device here for torch and Triton (pip install 'pdproto[kernels]')"
            print(f"pdproto: {line}", file=sys.stderr)  # noqa: T201
            return 2
        device = "cpu"
    if device == "cpu":
        from pdproto.cli import bench_host  # noqa: PLC0415

        results = bench_host.measure(quick=arguments.quick)
    else:
        from pdproto.cli import bench_device  # noqa: PLC0415

        results = bench_device.measure(quick=arguments.quick)
    bench_report.publish(
        results,
        json_file=arguments.json,
        markdown_file=arguments.markdown,
        plot_file=arguments.plot,
    )
    return 0


def _cuda() -> bool:
    try:
        import torch  # noqa: PLC0415
        import triton  # noqa: F401, PLC0415 - the kernels need both
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser(description=__doc__)
    configure(PARSER)
    sys.exit(run(PARSER.parse_args()))
