"""Write keys for a cluster. Only processes that have keys of one cluster may speak to each other.

`pdproto node keys FILE` writes one secret for all. With --member, it writes a file for each member
to a folder, and then no member can take the name of another. Copy a file to its hosts, and set
PDPROTO_KEYS to its path there. Exit status: 0, or 2 if a file cannot be written.
"""

import argparse
from pathlib import Path

from pdproto.cli.options import UsageError, check_folder, check_targets
from pdproto.transport.keys import AUTHORITY, KeysError, write_members, write_secret


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto node keys`."""
    parser.add_argument("path", metavar="PATH",
                        help="the file to write, readable by its owner only; a secret that is "
                             "there is never changed. With --member, a folder")
    parser.add_argument("--member", nargs="+", default=[], metavar="NAME",
                        help="write keys of their own for these servers or hosts; those in the "
                             "folder keep theirs, and learn of the new ones")


def run(arguments: argparse.Namespace) -> int:
    """Write the file; returns the exit status."""
    if not arguments.member:
        check_targets([arguments.path])
        if Path(arguments.path).exists():
            raise UsageError(f"{arguments.path} is there already, and is not changed: name a new "
                             f"file")
        write_secret(arguments.path)
        print(f"wrote {arguments.path}: copy it to every host, and set PDPROTO_KEYS to its path "  # noqa: T201 - the result
              f"there")
        return 0
    check_folder(arguments.path)
    try:
        wrote = write_members(arguments.path, arguments.member)
    except KeysError as error:
        raise UsageError(str(error)) from None
    for path in wrote:
        print(f"wrote {path}")  # noqa: T201 - the result
    print(f"copy each to its hosts, and keep {arguments.path}/{AUTHORITY} to yourself")  # noqa: T201 - the result
    return 0
