"""Write a system at given sizes in the language of another checker.

SPIN's model has the same states as ours, so its `states, stored` must equal the number of states
that `pdproto check` prints.
"""

import argparse
from itertools import islice

from pdproto.check.promela import promela
from pdproto.check.rigid import interpretations
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_sizes,
    add_system,
    configuration,
    write,
)
from pdproto.cli.systems import load
from pdproto.ground.grounding import Ground
from pdproto.spec.language.system import Configuration, System


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto export`."""
    add_system(parser)
    languages = parser.add_mutually_exclusive_group(required=True)
    languages.add_argument("--promela", action="store_true", help="for SPIN")
    add_sizes(parser)
    parser.add_argument(
        "--output", metavar="FILE|-", default=STANDARD_OUTPUT,
        help="where to write the model (default: standard output)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export one system; returns the exit status."""
    system = load(arguments.system)
    write(promela(ground(system, configuration(system, arguments))), arguments.output)
    return 0


def ground(system: System, chosen: Configuration) -> Ground:
    """The system's ground form. Raises UsageError if there is more than one topology."""
    given = list(islice(interpretations(system, chosen.sizes, chosen), 2))
    if len(given) > 1:
        raise UsageError(
            f"{system.name}: {list(system.rigids)} have several interpretations, and a model can "
            f"have only one: choose it with given= in a configuration of the system"
        )
    return Ground(system, chosen.sizes, chosen.faults, given[0])
