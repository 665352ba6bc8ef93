"""The processes of `python -m lab soak` beside the ranks: the registry and the network."""

import gc
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from time import monotonic
from typing import Final

from pdproto.drill.children import Pipe
from pdproto.registry.app import RegistryServer
from pdproto.testing.proxy import DOUBLED, LOST, PASSES, Fate, Proxy

TURN_S: Final = 0.005


def settle_in() -> None:
    """Ignore Ctrl-C, which the router handles, and exclude present objects from collection."""
    gc.freeze()  # later collections skip the objects that exist now
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def registry(port: int, pipe: Pipe) -> None:
    """Run the process of the registry. port: 0 takes a free one."""
    settle_in()
    with RegistryServer(port=port) as server, suppress(EOFError):
        pipe.send(server.port)
        pipe.recv()


@dataclass(slots=True)
class Weather:
    """The probability of each fate of a message."""

    seed: int
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    overtaken: float = 0.0
    delay_s: float = 0.2
    _random: Random | None = None

    def __call__(self, _door: str) -> Fate:
        self._random = random = self._random or Random(self.seed)  # noqa: S311 - no secret
        fates: Sequence[tuple[float, Fate]] = (
            (self.lost, LOST), (self.doubled, DOUBLED), (self.late, Fate(1, self.delay_s)),
            (self.overtaken, Fate(1, random.random() * self.delay_s, in_order=False)))
        drawn = random.random()
        for share, fate in fates:
            if drawn < share:
                return fate
            drawn -= share
        return PASSES


def network(pipe: Pipe) -> None:
    """Run the process of the network: carry out the router's calls on the proxy.

    It kills the ranks when the router has ended without killing them. A rank that is stopped
    (SIGSTOP) cannot notice that by itself.
    """
    settle_in()
    proxy, ranks = Proxy(), set[int]()
    with suppress(EOFError):
        while True:
            while pipe.poll():
                name, arguments = pipe.recv()
                if name == "weather":
                    (proxy.fate,) = arguments
                    pipe.send(None)
                elif name == "counts":
                    pipe.send(dict(proxy.counts))
                elif name == "ranks":
                    (ranks,) = arguments
                    pipe.send(None)
                else:
                    pipe.send(getattr(proxy, name)(*arguments))
            proxy.turn(monotonic(), TURN_S)
    for pid in ranks:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
