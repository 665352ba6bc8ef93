"""Where the prefill ranks of a `pdproto handoff` are: what they tell the registry, and decode asks.

Calls to the registry wait, so they run on threads of their own, beside the scheduler.
"""

import threading
from collections.abc import Sequence
from time import monotonic, sleep, time_ns
from typing import Final

from pdproto.cli.handoff_load import Topology
from pdproto.net.registry_client import (
    NotFoundError,
    Registrar,
    RegistryClient,
    UnreachableError,
)
from pdproto.net.registry_wire import Address, Registration
from pdproto.runtime.wire import VERSION

SIGN_OF_LIFE_S: Final = 0.5
RETRY_S: Final = 0.2


def registrar(registry: str, name: str, topology: Topology, endpoint: str) -> Registrar:
    """Keeps a prefill rank registered. endpoint: where its node listens, tcp://host:port."""
    stage, tensor, context = map(int, name.split("-")[1:])
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return Registrar(
        registry,
        Registration(
            attn_tp_size=topology.tp, attn_tp_rank=tensor, attn_cp_size=topology.cp,
            attn_cp_rank=context, pp_size=topology.pp, pp_rank=stage, rank_ip=host,
            rank_port=int(port), incarnation=time_ns(), version=VERSION,
        ),
        sign_of_life_s=SIGN_OF_LIFE_S,
        retry_s=RETRY_S,
    )


class Directory:
    """The prefill ranks that a decode rank needs, looked up again when one has been lost.

    endpoints: by name; None while they are being looked for, and then nothing can be opened.
    """

    def __init__(self, registry: str, needed: Sequence[str]) -> None:
        self.endpoints: dict[str, str] | None = None
        self._needed: Final = tuple(needed)
        self._client: Final = RegistryClient(registry)
        self._found: dict[str, Address] = {}
        self._stale: set[str] = set()
        self._look: Final = threading.Event()
        self._closing = False
        self._thread: Final = threading.Thread(target=self._run, name="directory", daemon=True)
        self._look.set()
        self._thread.start()

    def lost(self, name: str) -> None:
        """A rank has gone: wait until the registry has another run of it."""
        if self.endpoints is not None and name in self._found:
            self._stale.add(name)
            self.endpoints = None
            self._look.set()

    def close(self) -> None:
        self._closing = True
        self._look.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while True:
            self._look.wait()
            if self._closing:
                return
            self._look.clear()
            self._search()

    def _search(self) -> None:
        while not self._closing:
            try:
                ranks = self._client.look_up_all().ranks
            except (NotFoundError, UnreachableError):
                sleep(RETRY_S)
                continue
            found = {f"prefill-{one.pp}-{one.tp}-{one.cp}": one.address for one in ranks}
            stale = [name for name in self._stale if found[name] == self._found[name]]
            if not stale:
                self._found = found
                self._stale.clear()
                self.endpoints = {name: f"tcp://{found[name].rank_ip}:{found[name].rank_port}"
                                  for name in self._needed}
                return
            sleep(RETRY_S)


def wait_for(directory: Directory, seconds: float) -> bool:
    """Wait for the first look-up to succeed. Returns whether it did in time."""
    deadline = monotonic() + seconds
    while directory.endpoints is None and monotonic() < deadline:
        sleep(RETRY_S / 4)
    return directory.endpoints is not None
