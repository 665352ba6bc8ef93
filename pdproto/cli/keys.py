"""Write a secret for a cluster to a new file. Only processes that have it may speak to each other.

Copy the file to every host, and set PDPROTO_KEYS to its path there. Exit status: 0, or 2 if the
file is there already or cannot be written.
"""

import argparse

from pdproto.transport.keys import write_secret


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto keys`."""
    parser.add_argument("file", metavar="FILE", help="the file to write, readable by its owner "
                                                     "only; an existing file is never changed")


def run(arguments: argparse.Namespace) -> int:
    """Write the file; returns the exit status."""
    write_secret(arguments.file)
    print(f"wrote {arguments.file}: copy it to every host, and set PDPROTO_KEYS to its path there")  # noqa: T201 - the result
    return 0
