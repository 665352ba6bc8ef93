"""How each script of this folder runs, and what it prints.

A scene sets SGLang's own managers to work, and returns what happened. Exit status: 0 SGLang behaves
as expected, 1 it does not and the defect shows, 2 the scene could not be set, 3 only another
backend can have the defect. The traces of the run are replayed against the tables that describe
SGLang as it is (lab/peers/sglang.py).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Final

from lab.peer_defects.pair import World, leave
from lab.peers.sglang import SYSTEM
from lab.peers.sglang_registry import SYSTEM as REGISTRY
from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.spec.language import System

SETTLED_S: Final = 0.4
BACKENDS: Final = ("mooncake", "nixl")
VERDICTS: Final = {
    Verdict.HOLDS: "conform to", Verdict.VIOLATED: "are rejected by",
    Verdict.UNKNOWN: "are incomplete for",
}


class SceneError(Exception):
    """The scene could not be set: the step that did not happen."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of a scene. shows: the defect is there."""

    shows: bool
    what: str


@dataclass(frozen=True, slots=True)
class Script:
    """race: its name in docs/peer.md. traced: the tables can describe its run. only: the backend
    that has the defect, if not both may have it.
    """

    scene: Callable[[World], Seen]
    race: str
    expected: str
    traced: bool = True
    only: str = ""

    @property
    def backend(self) -> str:
        """The backend on which it runs by default."""
        return self.only or BACKENDS[0]


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def settle(world: World) -> None:
    """Wait until no thread writes into the traces any more."""
    paths, size = (*world.traces(), *world.registry_trace()), -1
    while size != (size := sum(path.stat().st_size for path in paths)):
        sleep(SETTLED_S)


def replay(system: System, paths: Sequence[Path]) -> None:
    """Replay the traces against the tables, and print the verdict."""
    found = verify(system, paths)
    say(f"they {VERDICTS[found.verdict]} the tables of {system.name}", *found.missing)
    if found.rejection is not None:
        where = f"{found.rejection.file}, line {found.rejection.number}"
        say(f"{where}: {found.rejection.why}", found.rejection.text)


def play(script: Script) -> None:
    """Run a script with the options of the command line, and end the process."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--backend", choices=BACKENDS, default=script.backend)
    leave(run(script, parser.parse_args().backend))


def run(script: Script, backend: str) -> int:
    """Run a script in this process, which can run no other after it. Returns its exit status."""
    if script.only not in ("", backend):
        say(f"{script.race} is of {script.only} only")
        return 3
    world = World(backend, traced=script.traced)
    try:
        seen = script.scene(world)
    except SceneError as error:
        say(f"{script.race}: the scene could not be set: {error}")
        return 2
    verdict = "the defect shows" if seen.shows else "as expected"
    say(f"{script.race}, SGLang 0.5.23, {backend}", f"expected: {script.expected}",
        f"happened: {seen.what}", verdict, f"traces: {world.folder}")
    settle(world)
    for system, paths in ((SYSTEM, world.traces()), (REGISTRY, world.registry_trace())):
        if any(path.stat().st_size for path in paths):
            replay(system, paths)
    return int(seen.shows)
