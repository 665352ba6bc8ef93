"""Show the cache of results of `check`, of mutants and of proofs, or remove its files.

The option --no-cache of `check`, `bugs`, `mutate` and `prove` neither reads nor writes the cache.
"""

import argparse
from pathlib import Path

from rich.table import Table

from pdproto.check.user_cache import MUTANTS, PROOFS, RESULTS, user_cache
from pdproto.cli.options import console


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto cache`."""
    parser.add_argument("--clear", action="store_true", help="remove the files")


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each folder of the cache; returns the exit status."""
    table = Table("kept", "files", "KiB", "folder", box=None)
    for kind in (RESULTS, MUTANTS, PROOFS):
        files = _files(user_cache(kind))
        size = sum(path.stat().st_size for path in files)
        if arguments.clear:
            for path in files:
                path.unlink(missing_ok=True)
        table.add_row(f"{kind} (removed)" if arguments.clear else kind, f"{len(files):,}",
                      f"{size / 1024:,.0f}", str(user_cache(kind)))
    with console() as out:
        out.print(table)
    return 0


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_file()]
