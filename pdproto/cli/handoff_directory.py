"""Where the prefill ranks of a `pdproto handoff` are: what they tell the registry, and decode asks.

Calls to the registry wait, so they run on threads of their own, beside the scheduler.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from time import monotonic, sleep, time_ns
from typing import Final, TypeAlias

from pdproto.cli.handoff_load import Topology
from pdproto.net.registry_client import (
    NotFoundError,
    Registrar,
    RegistryClient,
    UnreachableError,
)
from pdproto.net.registry_wire import RefusedError, Registration
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import VERSION
from pdproto.spec.handoff.timers import WAITS

Endpoints: TypeAlias = Mapping[str, str]  # where each rank listens, by name

SIGN_OF_LIFE_S: Final = 0.5
RETRY_S: Final = 0.2


def registrar(
    registry: str, name: str, topology: Topology, endpoint: str, trace: SharedTrace | None
) -> Registrar:
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
        trace=trace,
    )


class Directory:
    """The prefill ranks that a decode rank needs, looked up again when one has been lost.

    endpoints: by name; None while they are being looked for, and then nothing can be opened. Each
    look-up is an answer of its own. problem: why the last one has failed.
    """

    def __init__(
        self, registry: str, needed: Sequence[str],
        *, patience_s: float = WAITS["no_sign_of_life"].seconds + SIGN_OF_LIFE_S,
    ) -> None:
        self.endpoints: Endpoints | None = None
        self.problem = ""
        self._needed: Final = tuple(needed)
        self._patience_s: Final = patience_s
        self._client: Final = RegistryClient(registry)
        self._stale: Final[dict[str, str]] = {}
        self._look: Final = threading.Event()
        self._closing = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="directory", daemon=True)
        self._look.set()
        self._thread.start()

    def lost(self, names: Collection[str], answer: Endpoints) -> None:
        """These ranks, where that answer said they are, have gone: look for other runs of them.

        Several hand-overs notice the same loss, some of them after the next look-up: what they say
        of the answer before is not said of the new one.
        """
        if self.endpoints is answer and names:
            self._stale.update((name, answer[name]) for name in names if name in answer)
            self.endpoints = None
            self._look.set()

    def close(self) -> None:
        self._closing.set()
        self._look.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while True:
            self._look.wait()
            if self._closing.is_set():
                return
            self._look.clear()
            self._search()

    def _search(self) -> None:
        """Until every rank is there, and those that were lost are somewhere else.

        A rank that was only silent is still where it was. The registry would have struck it out by
        the end of our patience if it were gone.
        """
        patient = monotonic() + self._patience_s
        while not self._closing.is_set():
            try:
                found = {f"prefill-{one.pp}-{one.tp}-{one.cp}":
                         f"tcp://{one.address.rank_ip}:{one.address.rank_port}"
                         for one in self._client.look_up_all().ranks}
            except (NotFoundError, UnreachableError, RefusedError, RemoteProtocolError) as error:
                self.problem = str(error)
            else:
                moved = all(found[name] != where for name, where in self._stale.items())
                if moved or monotonic() > patient:
                    self._stale.clear()
                    self.endpoints = {name: found[name] for name in self._needed}
                    return
            self._closing.wait(RETRY_S)


def wait_for(directory: Directory, seconds: float) -> bool:
    """Wait for the first look-up to succeed. Returns whether it did in time."""
    deadline = monotonic() + seconds
    while directory.endpoints is None and monotonic() < deadline:
        sleep(RETRY_S / 4)
    return directory.endpoints is not None
