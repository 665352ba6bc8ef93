"""A program that forks while it has nodes open: `python -m tests.transport.inherited ENGINE DEED`.

The child does the deed, and prints what came of it. Then the parent hands over again, prints how
that ended, and closes its nodes.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np

from pdproto import DecodeNode, KVPoll, PrefillNode, SinkPages, SourcePages
from pdproto.engine.engines import open_sink, open_source
from pdproto.runtime.errors import LocalProtocolError
from tests.node.data_paths import ENDED
from tests.transport.victim import pools, source
from tests.waiting import until

PATIENCE_S = 20


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Pair:
    def __init__(self, engine: str) -> None:
        self.theirs = np.random.default_rng(0).integers(0, 256, (8, 1, 1, 4096), np.uint8)
        self.ours = np.zeros_like(self.theirs)
        self.prefill = PrefillNode("p", SourcePages([self.theirs], open_source(engine)))
        self.decode = DecodeNode("d", SinkPages({"p": [self.ours]}, open_sink(engine)))

    def hand_over(self, room: int) -> str:
        """The answers of both ends, and whether the page is the same."""
        self.receiver = receiver = self.decode.open(
            room, {"p": self.prefill.endpoint}, pages=[room % 8])
        self.sender = sender = self.prefill.open(room)
        until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
        sender.send([room % 8])
        until(lambda: sender.poll() in ENDED and receiver.poll() in ENDED)
        receiver.close()
        same = bool((self.ours[room % 8] == self.theirs[room % 8]).all())
        return f"{sender.poll().name} {receiver.poll().name} {same}"

    def close(self) -> None:
        self.prefill.close()
        self.decode.close()


def use(pair: Pair) -> None:
    """Call everything that could wait for a thread which the child does not have."""
    calls: tuple[Callable[[], object], ...] = (
        pair.sender.poll, pair.sender.abort, pair.receiver.poll, pair.receiver.close,
        lambda: pair.receiver.failure, lambda: pair.prefill.open(2), pair.prefill.drain,
        lambda: pair.decode.open(2, {"p": pair.prefill.endpoint}))
    for call in calls:
        try:
            call()
            tell("child: no error")
        except LocalProtocolError as error:
            tell(f"child: {error}".replace(str(os.getppid()), "PARENT"))
    tell(f"child: {pair.decode.health()}".replace(str(os.getppid()), "PARENT"))


def collect(pair: Pair) -> None:
    """Collect the nodes as garbage."""
    vars(pair).clear()
    gc.collect()


DEEDS: dict[str, Callable[[Pair], None]] = {
    "close": Pair.close, "use": use, "collect": collect, "exit": lambda _: sys.exit(0)}


def main(engine: str, deed: str) -> None:
    pair = Pair(engine)
    tell(pair.hand_over(1))
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE_S)  # a child that hangs is ended by it
        DEEDS[deed](pair)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    tell(f"child ended: {os.waitstatus_to_exitcode(status)}")
    tell(pair.hand_over(3))
    errors = [node.metrics.read()["turn_errors"] for node in (pair.prefill, pair.decode)]
    tell(f"turn errors: {errors}")
    pair.close()


def forking_source(engine: str, pipe: Connection) -> None:
    """A rank that forks a child, which lives on when the rank is killed."""
    node = source(engine, pools(1))
    pipe.send((node.endpoint, os.getpid()))
    sender = node.open(7)
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
    child = os.fork()
    if not child:
        signal.alarm(4 * PATIENCE_S)
        signal.pause()
    pipe.send(child)
    pipe.recv()


if __name__ == "__main__":
    main(*sys.argv[1:])
