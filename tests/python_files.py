"""Lay a wheel's Python files over a package that is installed, with the compiled files of that one.

    python -m tests.python_files WHEEL FOLDER

So tests run over the Python files of a release that has no build for this machine, or whose
compiled packages are large. The folder goes first in PYTHONPATH.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile


def lay(wheel: Path, folder: Path) -> None:
    """Unpack the wheel into the folder, and link the compiled files of the installed package."""
    package = wheel.name.partition("-")[0]
    with ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist()
                                    if name.startswith(f"{package}/") and not name.endswith(".so")])
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed here, so its compiled files cannot be linked")
    installed = Path(found.origin).parents[1]
    for compiled in (installed / package).rglob("*.so"):
        link = folder / compiled.relative_to(installed)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(compiled)


if __name__ == "__main__":
    lay(Path(sys.argv[1]), Path(sys.argv[2]))
