"""The sink's part in bootstrap: the known runs of prefill ranks, and the lost ones.

Rule 1: the rows of the sink decide (SINK in spec/handoff/registry.py). There is no socket and no
        clock here: questions come out; answers and the ends of waits go in.
Rule 2: hand-overs that begin while the addresses are valid share them. So the table runs one
        hand-over for all: it looks the addresses up, and again when a rank has gone. When it fails,
        the next one begins.
Rule 3: the rows about a rank's reply to a hand-over (welcome, or refusal by another run) do not run
        here, because the rank sends that reply to the node itself (node/decode/sources.py).
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from pdproto.registry.wire import Lookup, Rank, RankAddress
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import bootstrap
from pdproto.spec.handoff import registry as tables
from pdproto.spec.handoff.bootstrap import Cache
from pdproto.spec.handoff.roles import Life, Source


class SinkPart:
    """The part of one sink. sink: its name. ranks: the ranks whose addresses it needs.

    found: the addresses, as soon as all are known; a new mapping after each look-up.
    """

    def __init__(
        self, sink: str, ranks: Collection[Rank], trace: SharedTrace | None = None
    ) -> None:
        self.found: Mapping[Rank, RankAddress] | None = None
        self._sink: Final = sink
        self._ranks: Final = tuple(ranks)
        self._machine: Final = shared(tables.SINK, (sink,), {Source: self._ranks}, trace=trace)
        self._addresses: Final[dict[Rank, dict[int, RankAddress]]] = {rank: {} for rank in ranks}
        self._handover = 0
        self._begin()

    @property
    def question(self) -> Lookup | None:
        """The question for the registry now; None if there is none."""
        filling = self._machine.value(bootstrap.cache, self._sink) is Cache.FILLING
        return Lookup(self._sink, self._handover, self._ranks) if filling else None

    def hear_located(self, addresses: Mapping[Rank, RankAddress]) -> None:
        """Note the registry's answer: the address and the run of each rank."""
        for rank in self._ranks:
            number = addresses[rank].incarnation
            step = self._machine.receive(
                bootstrap.located, self._sink, self._handover, rank, (number, rank))
            if step.changed:
                self._addresses[rank] = {number: addresses[rank]}
        self._settle()

    def hear_unlocated(self) -> None:
        """Note the registry's answer that a rank is missing."""
        self._machine.receive(bootstrap.unlocated, self._sink, self._handover, self._ranks[0])
        self._follow_failure()

    def give_up(self) -> None:
        """Fail the look-up: the registry has not answered in time (timer registry_unreachable)."""
        self._machine.receive(bootstrap.registry_down)
        self._machine.fire("give_up", h=self._handover)
        self._follow_failure()

    def look_again(self) -> None:
        """Repeat the question: there was no answer, or no useful one (timer no_answer)."""
        for rank in self._ranks:
            self._machine.fire("look_again", h=self._handover, p=rank)

    def lose(self, rank: Rank, number: int) -> None:
        """Count this run of a rank as gone (timer heartbeat): the connection to it is broken."""
        run = number, rank
        self._machine.receive(bootstrap.disconnected, self._sink, rank, run)
        self._machine.fire("miss_heartbeat", p=rank, e=run)
        self._settle()

    def abandon(self, addresses: Mapping[Rank, RankAddress]) -> bool:
        """If this answer still lists a run that counts as gone here, end (timer still_listed).

        Returns whether this sink has ended. Then a sink under another name has to look up.
        """
        for rank in self.lost(addresses):
            run = addresses[rank].incarnation, rank
            if self._machine.fire("abandon", h=self._handover, p=rank, e=run) is not None:
                self._machine.fire("fail_abandoned", h=self._handover)
                self._machine.call("clear", self._handover)
                return True
        return False

    def lost(self, addresses: Mapping[Rank, RankAddress]) -> list[Rank]:
        """The ranks whose runs in this answer count as gone here."""
        return [rank for rank in self._ranks if self._machine.value(
            bootstrap.dead, self._sink, rank, (addresses[rank].incarnation, rank))]

    def _begin(self) -> None:
        self._machine.call("open", self._handover)
        self._settle()

    def _settle(self) -> None:
        """Take the steps that need no event."""
        fire, handover, ranks = self._machine.fire, self._handover, [*self._ranks]
        if fire("forget", p=ranks) is not None:
            self.found = None
        fire("fill", h=handover, q=ranks)
        if fire("filled") is not None:
            self.found = {rank: address for rank in ranks
                          for address in self._addresses[rank].values()}
        while fire("call_on", h=handover, p=ranks) is not None:
            pass

    def _follow_failure(self) -> None:
        """Clear the hand-over that has failed, and begin the next one."""
        self._machine.call("clear", self._handover)
        # A hand-over that has sent a rank a message is kept: its welcome may still come.
        with suppress(LocalProtocolError):
            self._machine.forget(Life, self._handover)
        self._handover += 1
        self._begin()

    def __repr__(self) -> str:
        return repr(self._machine)
