"""How each script of this folder runs, and what it prints.

A scene sets SGLang's own managers to work, and says what it has seen. Exit status: 0 SGLang does
what is to be expected, 1 it does not and the defect shows, 2 the scene could not be set. The traces
of the run are replayed against the tables that describe SGLang as it is (spec/peers/sglang.py).
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import Final

from examples.peer_defects.pair import World, leave
from pdproto.check.result import Verdict
from pdproto.check.trace_story import verify
from pdproto.spec.peers.sglang import SYSTEM

SETTLED_S: Final = 0.4
VERDICTS: Final = {
    Verdict.HOLDS: "conform to", Verdict.VIOLATED: "are rejected by",
    Verdict.UNKNOWN: "are incomplete for",
}


class SceneError(Exception):
    """The scene could not be set: what has not happened."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scene has come to. shows: the defect is there."""

    shows: bool
    what: str


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def settle(world: World) -> None:
    """Wait until nobody writes into the traces any more."""
    size = -1
    while size != (size := sum(path.stat().st_size for path in world.traces())):
        sleep(SETTLED_S)


def play(scene: Callable[[World], Seen], *, race: str, expected: str, traced: bool = True) -> None:
    """Run the scene, tell of it, and end the process. race: its name in docs/peer.md."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--backend", choices=("mooncake", "nixl"), default="mooncake")
    world = World(parser.parse_args().backend, traced=traced)
    try:
        seen = scene(world)
    except SceneError as error:
        say(f"the scene could not be set: {error}")
        leave(2)
        return
    verdict = "the defect shows" if seen.shows else "as expected"
    say(f"{race}, SGLang 0.5.23, {world.backend}", f"expected: {expected}",
        f"happened: {seen.what}", verdict, f"traces: {world.folder}")
    if traced and world.traces():
        settle(world)
        replayed = verify(SYSTEM, world.traces())
        say(f"they {VERDICTS[replayed.verdict]} the tables of {SYSTEM.name}",
            *replayed.missing)
        if replayed.rejection is not None:
            rejection = replayed.rejection
            say(f"{rejection.file}, line {rejection.number}: {rejection.why}", rejection.text)
    leave(int(seen.shows))
