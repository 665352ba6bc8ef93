"""Find what is wrong with a spec without exploring it: holes, ambiguities, leftovers.

Exit status: 0 no error, 1 at least one, 2 the spec cannot be read. Warnings and notes do not count.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from pdproto.check.lint import ELEMENTS, Remark, Severity, lint, small_sizes
from pdproto.check.load import load
from pdproto.cli.options import STANDARD_OUTPUT, add_system, standard_output, write
from pdproto.spec.language.symbols import Sizes
from pdproto.spec.language.system import System

ELEMENTS_MAX: Final = 4  # of each sort: rules look at every choice of elements for every row


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto lint`."""
    add_system(parser)
    parser.add_argument(
        "--elements",
        metavar="N",
        type=int,
        choices=range(1, ELEMENTS_MAX + 1),
        default=ELEMENTS,
        help=f"look at N elements of each sort, or as many as any configuration has "
        f"(default: {ELEMENTS})",
    )
    parser.add_argument("--json", metavar="FILE|-", help="write the remarks as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Lint one system; returns the exit status."""
    system = load(arguments.system)
    sizes = small_sizes(system, arguments.elements)
    remarks = lint(system, sizes)
    if arguments.json != STANDARD_OUTPUT:
        with standard_output() as stream:
            stream.writelines(f"{remark}\n" for remark in remarks)
            stream.write(f"{system.name}: {_summary(remarks)}\n")
    if arguments.json:
        write(json.dumps(_as_json(system, sizes, remarks), indent=2), arguments.json)
    return int(any(remark.severity is Severity.ERROR for remark in remarks))


def _summary(remarks: Sequence[Remark]) -> str:
    """`2 errors, 1 warning`, or `nothing to remark`."""
    counts = Counter(remark.severity for remark in remarks)
    parts = [f"{n} {s}{'' if n == 1 else 's'}" for s in Severity if (n := counts[s])]
    return ", ".join(parts) or "nothing to remark"


def _as_json(system: System, sizes: Sizes, remarks: Sequence[Remark]) -> dict[str, Any]:
    return {
        "system": system.name,
        "sizes": {sort.__name__: size for sort, size in sizes.items()},
        "remarks": [asdict(remark) for remark in remarks],
    }
