"""Which servers run: one pair with its router at a time, kept for the cells that share a layout."""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from examples.servers.serving import HOST, free_port
from examples.sglang_servers import tiny_models
from examples.sglang_servers.preloaded import HOOK
from examples.sglang_servers.serving import Servers, SglangServer, has_router
from pdproto.transport.keys import SUFFIX, write_members
from tests.servers import hooks
from tests.servers.census import Census, settled
from tests.servers.kept_pair import SIDES, KeptPair, ServerPair
from tests.servers.load import Ask, Both, Through, Way, asks, send
from tests.servers.reference import Reference
from tests.servers.standstill import Signal
from tests.servers.suite import UntestedError

POOL_TOKENS: Final = 16384
POOL: Final = ("--max-total-tokens", f"{POOL_TOKENS}", "--max-running-requests", "64")
SLOW_TURN: Final = "a turn of its loop took"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a pair is started. Flags beside those of every server.

    each: how many servers there are of each kind. A router of several tries again.
    evidence: what prefill's log shows once, or more often, if it does what the layout is for.
    decode_evidence: the same of decode. warm: requests at once before the census with which later
    ones are compared. members: each server has keys of its own, as a member of their cluster.
    """

    model: str = "llama"
    backend: str = "pdproto"
    both: tuple[str, ...] = ()
    prefill: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    decode_model: str | None = None
    each: int = 1
    evidence: str = ""
    decode_evidence: str = ""
    warm: int = 48
    members: bool = False


@dataclass
class Pair(ServerPair[Layout, SglangServer]):
    """before: the census that later ones are compared with."""

    before: dict[str, Census] = field(default_factory=dict)

    @property
    def through(self) -> Way:
        """The router, if there is one."""
        return Through(self.router.url) if self.router else self.both

    @property
    def both(self) -> Both:
        assert self.prefill.bootstrap is not None
        return Both(self.prefill.url, self.decode.url, self.prefill.bootstrap)

    @property
    def signals(self) -> dict[str, Signal]:
        """For a standstill. The registry is a part of prefill's first process."""
        def to_schedulers(server: SglangServer) -> Signal:
            def send(number: signal.Signals) -> None:
                for pid in server.schedulers():
                    os.kill(pid, number)

            return send

        return {"prefill": self.prefill.signal_all, "decode": self.decode.signal_all,
                "the registry": self.prefill.signal_leader,
                "prefill's scheduler": to_schedulers(self.prefill),
                "decode's scheduler": to_schedulers(self.decode)}

    def left(self) -> str:
        """See standstill.Pair."""
        held = {server.name: settled(server) for server in self.servers}
        return ", ".join(f"{one.used} tokens and {one.busy} requests at {name}"
                         for name, one in held.items() if one.used or one.busy)

    def told(self) -> str:
        """What the servers hold, and the end of decode's log."""
        return f"{ {server.name: server.held() for server in self.servers} }; {self.decode.tail()}"

    def take_census(self) -> None:
        self.before = {server.name: settled(server) for server in self.servers}

    def check_evidence(self) -> None:
        for server, wanted in (
            (self.prefill, self.layout.evidence), (self.decode, self.layout.decode_evidence)
        ):
            if wanted not in server.log.read_text(errors="replace"):
                raise UntestedError(f"{server.log} does not show {wanted!r}")

    def check_nothing_grew(self) -> None:
        """Since `take_census`. SGLang's own check ends an idle scheduler that misses pages."""
        for server in self.servers:
            before = self.before[server.name]
            grown = settled(server, before).grown(before)
            assert not grown, f"{server.name} leaks: {grown}{_slow_turn(server)}"
            assert server.is_alive(), f"{server.name} has died: {server.tail()}"


def _slow_turn(server: SglangServer) -> str:
    """The last slow turn that the server's log tells of, with its longest part."""
    lines = server.log.read_text(errors="replace").splitlines()
    return "".join([f"; {line}" for line in lines if SLOW_TURN in line][-1:])


class Stage(KeptPair[Servers, SglangServer, Layout, Pair]):
    """defect: of defects.py."""

    def model(self, name: str) -> Path:
        """See KeptPair."""
        return tiny_models.make(name, self._folder / name)

    def reference(self, name: str, wanted: Sequence[Ask]) -> Reference:
        """See KeptPair.answers_of."""
        return self.answers_of(name, POOL, wanted)

    def open(self, layout: Layout) -> Pair:
        """See KeptPair."""
        prefills, decodes = ([self.start(layout, f"{side}{'abcd'[place]}" if place else side)
                              for place in range(layout.each)] for side in SIDES)
        for server in (*prefills, *decodes):
            server.wait_healthy()
        router = None
        if has_router():
            router = self.servers.router(f"router-{self.number}", prefills, decodes,
                                         retries=layout.each > 1)
            router.wait_healthy()
        pair = Pair(layout, prefills[0], decodes[0], router,
                    others=[*prefills[1:], *decodes[1:]])
        send(pair.through, asks(layout.warm, seed=1), in_flight=layout.warm)
        pair.take_census()
        return pair

    def start(self, layout: Layout, side: str, like: SglangServer | None = None) -> SglangServer:
        """See KeptPair. side: with which the name begins."""
        is_prefill = side.startswith("prefill")
        begin = self.servers.prefill if is_prefill else self.servers.decode
        flags = (*POOL, *layout.both, *(layout.prefill if is_prefill else layout.decode))
        model = layout.model if is_prefill else layout.decode_model or layout.model
        operator = free_port() if layout.backend == "pdproto" else None
        env = self.environment(layout)
        if operator is not None:
            env["PDPROTO_OPERATOR"] = f"{HOST}:{operator}"
        if layout.members:
            write_members(folder := str(self._folder / "members"), SIDES)
            env["PDPROTO_KEYS"] = f"{folder}/{side}{SUFFIX}"
        server = begin(f"{side}-{self.number}", self.model(model), flags,
                       backend=layout.backend, like=like, env=env)
        server.operator = operator
        return server

    def environment(self, layout: Layout) -> dict[str, str]:
        told = {HOOK: hooks.HOOK, **layout.env}
        return told | ({hooks.DEFECT: self.defect} if self.defect else {})

