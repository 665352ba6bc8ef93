"""Write the documentation of a spec: states by triggers, every row in words, diagrams, properties.

Markdown with Mermaid diagrams, made from the tables alone: commit it, and compare it in your tests.
"""

import argparse

from pdproto.check.tables import document
from pdproto.cli.options import STANDARD_OUTPUT, add_system, write
from pdproto.cli.systems import load


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto tables`."""
    add_system(parser)
    parser.add_argument(
        "--output", metavar="FILE|-", default=STANDARD_OUTPUT, help="where to (default: -)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Document one system; returns the exit status."""
    write(document(load(arguments.system)), arguments.output)
    return 0
