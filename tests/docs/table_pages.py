"""The pages of docs/tables: `python -m tests.docs.table_pages [--all]`.

Of the hundred systems, those that people read are committed. `make docs` writes them anew; with
--all, as `make docs-site` asks, come the pages of all others, which Git ignores.
"""

import sys
from pathlib import Path
from typing import Final

from lab.catalogue import PEERS
from pdproto.cli.export import page
from pdproto.cli.systems import BUILT_IN

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "tables"
COMMITTED: Final = ("lock-server", "registry", "transfer", "agreement")


def path(name: str) -> Path:
    """The file of a system's page."""
    return FOLDER / f"{name}.md"


def reference(name: str, folder: str = "../tables") -> str:
    """The Markdown that refers to a system: a link to a page that is committed, else its name."""
    return f"[{name}]({folder}/{name}.md)" if name in COMMITTED else f"`{name}`"


def main() -> int:
    """Write the pages."""
    names = {**BUILT_IN, **PEERS} if "--all" in sys.argv[1:] else COMMITTED
    for name in names:
        path(name).write_text(page(PEERS.get(name, name)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
