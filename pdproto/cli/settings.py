"""Print the settings that a node in this environment has, and the source of each value.

Exit status: 0, or 2 for a setting that is unknown, malformed or contradictory; the error says how
to correct it.
"""

import argparse
import os

from rich.table import Table

from pdproto.cli.options import UsageError, console
from pdproto.transport.settings import SettingsError, load, variable


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto node settings`."""
    parser.add_argument("--file", metavar="FILE", help="a settings file, in TOML (default: "
                                                       "PDPROTO_SETTINGS)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a setting that overrides all other sources; may be repeated")


def run(arguments: argparse.Namespace) -> int:
    """Print all settings; returns the exit status."""
    try:
        settings = load(os.environ, arguments.set, arguments.file)
    except SettingsError as error:
        raise UsageError(str(error)) from None
    table = Table("setting", "environment", "value", "from", "meaning", title=None)
    for name, value, source, told in settings.rows():
        table.add_row(name, variable(name), value, source, told)
    with console() as out:
        out.print(table)
    return 0
