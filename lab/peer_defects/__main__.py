"""Run the scripts of this folder, each in a process of its own, and print which defects show.

    python -m lab.peer_defects [--backend nixl] [NAME ...]

Each runs on Mooncake by default, or on the only backend that has its defect. SGLang is imported
once, and each script runs in a copy of this process. Exit status: 0 every scene could be set,
2 one could not.
"""

import argparse
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Final

from lab.peer_defects.pair import leave
from lab.peer_defects.script import BACKENDS, Script, run, say

NO_SCRIPTS: Final = ("__main__", "pair", "script", "steps")


def names() -> list[str]:
    """The scripts of this folder."""
    found = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in found if name not in NO_SCRIPTS)


def in_a_copy(script: Script, backend: str) -> int:
    """The exit status of the script, run in a copy of this process."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = run(script, backend)
        except Exception:
            traceback.print_exc()
        leave(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="of a script (default: all)")
    parser.add_argument("--backend", choices=BACKENDS)
    arguments = parser.parse_args()
    found = {}
    for name in arguments.names or names():
        say(f"# {name}")
        script: Script = import_module(f"lab.peer_defects.{name}").SCRIPT
        found[name] = in_a_copy(script, arguments.backend or script.backend)
        say("")
    words = {0: "as expected", 1: "the defect shows", 3: "of another backend"}
    say(*(f"{name:>28}  {words.get(status, 'not set')}" for name, status in found.items()))
    return 0 if set(found.values()) <= set(words) else 2


if __name__ == "__main__":
    sys.exit(main())
