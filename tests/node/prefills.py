"""A scheduler that prefills optimistically with a toy model, and senders that do as they are told.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count

from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import Bootstrap, Order, Ordered, PrefillRequest
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.poll import KVPoll

CHUNK_TOKENS = 4


@dataclass(slots=True)
class FakeSender:
    """A sender whose sink is the test."""

    word: KVPoll = KVPoll.BOOTSTRAPPING
    failure: str | None = None
    aborted: list[str] = field(default_factory=list)
    held: bool = False  # by writes that read the KV

    def poll(self) -> KVPoll:
        return self.word

    def stood(self, _seconds: float) -> float:
        return 0.0

    def abort(self, reason: str) -> None:
        self.aborted.append(reason)
        self.word = KVPoll.FAILED

    @property
    def released(self) -> bool:
        return not self.held


def model(prompt: Sequence[int], kv: Sequence[str]) -> tuple[str, ...]:
    """The KV of the next chunk, from all before it."""
    so_far = "".join(kv)
    part = prompt[len(kv): len(kv) + CHUNK_TOKENS]
    return tuple(sha256(f"{so_far}{part[:i + 1]}".encode()).hexdigest() for i in range(len(part)))


@dataclass(slots=True, eq=False)
class Toy:
    """Computes what is ordered, chunk by chunk, and notes all that happens.

    computes: False leaves chunks under way until `compute` is called. kv: by request, in its
    running slot.
    """

    prefill: OptimisticPrefill
    computes: bool = True
    prompts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kv: dict[str, list[str]] = field(default_factory=dict)
    under_way: list[PrefillRequest] = field(default_factory=list)
    sent: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    happened: list[tuple[str, str]] = field(default_factory=list)
    on_send: Callable[[Ordered], None] = lambda _: None
    clock: count = field(default_factory=count)  # type: ignore[type-arg]  # of whole seconds

    def submit(
        self, name: str, *senders: Bootstrap, chunks: int = 3, retracted: bool = False
    ) -> PrefillRequest:
        self.prompts[name] = tuple(sha256(name.encode()).digest()[:chunks * CHUNK_TOKENS])
        return self.prefill.create_sender(name, senders, chunks=chunks, now=next(self.clock),
                                          retracted=retracted)

    def turn(self) -> None:
        now = float(next(self.clock))
        self.prefill.turn(now)
        while self.prefill.start(now) is not None:
            pass
        self.obey()
        if self.computes:
            self.compute()

    def obey(self) -> None:
        while orders := self.prefill.orders():
            for ordered in orders:
                self.happened.append((ordered.order.name, ordered.request.id))
                self._obey(ordered)

    def _obey(self, ordered: Ordered) -> None:
        request = ordered.request
        match ordered.order:
            case Order.COMPUTE:
                if ordered.chunk == 0:
                    assert request.id not in self.kv, "a pass begins with KV of the pass before"
                    self.kv[request.id] = []
                self.under_way.append(request)
            case Order.SEND:
                assert request.finalized, "sent before its destination was known"
                first, end = (c * CHUNK_TOKENS for c in (ordered.chunks.start, ordered.chunks.stop))
                self.sent.setdefault(request.id, []).extend(self.kv[request.id][first:end])
                self.on_send(ordered)
            case Order.DROP | Order.END:
                assert request not in self.under_way, "freed while the device writes it"
                self.kv.pop(request.id, None)
                if ordered.order is Order.END and request.stage is Stage.SUCCESS:
                    self.outputs[request.id] = self.sent[request.id][-1]

    def compute(self) -> None:
        """The device ends what it was given."""
        for request in [*self.under_way]:
            kv = self.kv[request.id]
            assert len(kv) == request.chunk * CHUNK_TOKENS
            kv.extend(model(self.prompts[request.id], kv))
            self.under_way.remove(request)
            self.prefill.chunk_done(request, float(next(self.clock)))
        self.obey()

    def idle(self) -> bool:
        """Every gauge is 0, and nothing is remembered."""
        gauges = self.prefill.metrics.read()
        held = [name for name, value in gauges.items() if name.startswith("num_") and value]
        return not held and not self.kv and len(self.prefill._steps) == 0
