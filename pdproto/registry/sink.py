"""The sink's part in bootstrap: which runs of the prefill ranks it knows, and which are gone.

Rule 1: the rows of the sink decide (SINK in spec/handoff/registry.py). There is no socket and no
        clock here: what is to be asked comes out, answers and the ends of waits come in.
Rule 2: hand-overs that begin while the addresses are good share them, so one of them stands for
        all: it looks them up, again whenever a rank has gone, and when it fails the next begins.
Rule 3: that a rank welcomes a hand-over, or refuses it as another run than was meant, is what it
        says to the node itself (node/decode.py): no row on that is run here.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from pdproto.registry.wire import Address, Lookup, Rank
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import bootstrap
from pdproto.spec.handoff import registry as tables
from pdproto.spec.handoff.bootstrap import Cache
from pdproto.spec.handoff.roles import Life, Source


class SinkPart:
    """See the rules above. sink: its name. ranks: those whose addresses it needs.

    found: where they are, as soon as all are known; another mapping after each look-up.
    """

    def __init__(
        self, sink: str, ranks: Collection[Rank], trace: SharedTrace | None = None
    ) -> None:
        self.found: Mapping[Rank, Address] | None = None
        self._sink: Final = sink
        self._ranks: Final = tuple(ranks)
        self._machine: Final = shared(tables.SINK, (sink,), {Source: self._ranks}, trace=trace)
        self._addresses: Final[dict[Rank, dict[int, Address]]] = {rank: {} for rank in ranks}
        self._handover = 0
        self._begin()

    @property
    def question(self) -> Lookup | None:
        """What is asked of the registry now; None if nothing is."""
        filling = self._machine.value(bootstrap.cache, self._sink) is Cache.FILLING
        return Lookup(self._sink, self._handover, self._ranks) if filling else None

    def hear_located(self, addresses: Mapping[Rank, Address]) -> None:
        """The registry has answered: where each of the ranks is, and in which run."""
        for rank in self._ranks:
            number = addresses[rank].incarnation
            step = self._machine.receive(
                bootstrap.located, self._sink, self._handover, rank, (number, rank))
            if step.changed:
                self._addresses[rank] = {number: addresses[rank]}
        self._settle()

    def hear_unlocated(self) -> None:
        """The registry has answered that a rank is missing."""
        self._machine.receive(bootstrap.unlocated, self._sink, self._handover, self._ranks[0])
        self._follow_failure()

    def give_up(self) -> None:
        """The registry has not answered for as long as it may (timer registry_unreachable)."""
        self._machine.receive(bootstrap.registry_down)
        self._machine.fire("give_up", h=self._handover)
        self._follow_failure()

    def look_again(self) -> None:
        """An answer has not come, or was of no use (timer no_answer): the question is repeated."""
        for rank in self._ranks:
            self._machine.fire("look_again", h=self._handover, p=rank)

    def lose(self, rank: Rank, number: int) -> None:
        """This run of a rank is gone (timer heartbeat). A later one is not meant by that."""
        run = number, rank
        self._machine.receive(bootstrap.missed, rank, run)
        self._machine.fire("miss_heartbeat", p=rank, e=run)
        self._settle()

    def holds_lost(self, rank: Rank, number: int) -> bool:
        """Whether this run counts as gone here."""
        return self._machine.value(bootstrap.dead, self._sink, rank, (number, rank)) is True

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
        """The hand-over that asked has failed: its caller clears it, and the next asks."""
        self._machine.call("clear", self._handover)
        # One that had called on a rank before cannot be forgotten: a welcome may still come.
        with suppress(LocalProtocolError):
            self._machine.forget(Life, self._handover)
        self._handover += 1
        self._begin()

    def __repr__(self) -> str:
        return repr(self._machine)
