"""Look at running nodes, print the settings of a node, or write the keys of a cluster."""

import argparse
from typing import Final

from pdproto.cli import doctor, keys, probe, settings, top

PARTS: Final = (
    ("top", top, "show the present state of nodes: queues, leases, rates, and stuck hand-overs"),
    ("probe", probe, "ask a node or a registry whether it is healthy, ready or empty"),
    ("doctor", doctor, "find out whether two hosts can hand over, before a model is loaded"),
    ("settings", settings, "print the settings of a node, and the source of each"),
    ("keys", keys, "write the secret of a cluster, by which its processes recognize each other"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the parts of `pdproto node`, each with its options."""
    parts = parser.add_subparsers(required=True, metavar="WHAT")
    for name, module, told in PARTS:
        part = parts.add_parser(name, help=told, description=module.__doc__)
        module.configure(part)
        part.set_defaults(part=module.run)


def run(arguments: argparse.Namespace) -> int:
    """Run the part; returns the exit status."""
    return int(arguments.part(arguments))
