"""Prefill before its bootstrap, by the scheduler of a prefill node (node/optimistic/prefill.py).

The scheduler's proposals, its device and its senders wait for the race. The decode server runs its
table (runtime/store.py), and the network between them is played here.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from lab.race.counterexample import Counterexample
from lab.race.network import Held
from lab.race.stage import CannotArrangeError, Stage, Step
from lab.race.watching import TableWatch, Watching
from lab.sim import planted
from lab.sim.outcome import DRAINED, ENDS, STEADY
from pdproto.ground.grounding import ground_for
from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings, Order, PrefillRequest
from pdproto.runtime.errors import ProtocolError
from pdproto.runtime.trace_shared import shared
from pdproto.spec.handoff import attempts as tables
from pdproto.spec.handoff.attempts import ENDED, OPEN, Receiving
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import System

ROUNDS: Final = 60  # of the scheduler and of decode, at the end: more than any request needs
ROUND_S: Final = 30.0
CHUNKS: Final = 2
# The rows that the scheduler proposes after others, at once.
AT_ONCE: Final = ("launch_last", "park", "send", "force_retry", "force_fall_back", "run_again",
                  "fall_back", "release")


class _Sender:
    """The sender of a request (optimistic_record.Bootstrap): its poll is what the race says."""

    failure: str | None = None

    def __init__(self) -> None:
        self.word = KVPoll.BOOTSTRAPPING
        self.aborted = False

    @property
    def released(self) -> bool:
        """See Bootstrap. No engine reads its pages."""
        return True

    def poll(self) -> KVPoll:
        """See Bootstrap."""
        return self.word

    def stood(self, _seconds: float) -> float:
        """See Bootstrap. In a race nobody is suspected."""
        return 0.0

    def abort(self, reason: str) -> None:
        """See Bootstrap. Decode is told."""
        self.failure = reason
        self.aborted = True


class Optimistic(Stage):
    """The scheduler of one counterexample, and a decode server. edited: the system that they run.
    """

    checks_rows = True

    def __init__(self, example: Counterexample, edited: System) -> None:
        super().__init__()
        sizes = example.bug.configuration.sizes
        self._sizes: Final = sizes
        self._waits: Final = example.waits
        self._now = 0.0
        watch = TableWatch(
            ground_for(edited, example.bug.configuration, example.given, Fairness.TIMERS),
            self._index, self.blame, lambda name: self.fired.update((name,)))
        trace = Watching(watch)
        sampled = bool(example.related("sampled"))
        self._prefill: Final = OptimisticPrefill(
            OptimisticSettings(
                slots=sizes[Slot], running_slots=sizes[tables.RunningSlot],
                retries=sizes[Attempt] - 1, force_retry_probability=float(sampled),
                bootstrap_timeout_s=self._waits.get(
                    "bootstrap_timeout", WAITS["bootstrap_timeout"].seconds)),
            table=planted.kept(edited, tables.prefill), trace=trace)
        self._decode: Final = shared(planted.kept(edited, tables.decode), (),
                                     {Page: range(sizes[Page])}, trace=trace)
        self._senders: Final = [_Sender() for _ in range(sizes[Life])]
        self._requests: Final[dict[int, PrefillRequest]] = {}

    @staticmethod
    def _index(_sort: type[Sort], element: Hashable) -> int:
        return element if isinstance(element, int) else -1

    def settle(self) -> None:
        """See Stage. The scheduler acts when it is called."""

    # The race

    def frame(self, _step: Step, message: str) -> Held:
        """See Stage. Messages are played here."""
        raise CannotArrangeError(f"no frame {message} is under way")

    def is_told(self, step: Step, message: str) -> bool:
        """See Stage."""
        h = step.of(Life)
        sender = self._senders[h]
        match message:
            case "publish":
                sender.word = KVPoll.WAITING_FOR_INPUT
                self._poll(h)
            case "abort":
                sender.word = KVPoll.FAILED
                self._poll(h)
            case _:
                self._do(partial(self._decode.receive, message, h))
        return True

    def _poll(self, h: int) -> None:
        if h in self._requests:
            self._do(partial(self._prefill._poll, self._requests[h]))

    def call(self, step: Step, name: str) -> None:
        """See Stage."""
        h = step.of(Life)
        if name in ("submit", "submit_retracted"):
            self._submit(h, retracted=name == "submit_retracted")
        elif name == "abort_prefill":
            self._prefill.abort(self._request(h), "the client has left")
        elif step.machine is tables.decode:
            more = (step.of(Page),) if name == "finish" else ()
            self._do(partial(self._decode.call, name, h, *more))
        else:
            raise CannotArrangeError(f"a scheduler has no call {name}")

    def _submit(self, h: int, *, retracted: bool) -> None:
        if h in self._requests:
            return
        # Lives have the numbers that the scheduler gives.
        if len(self._requests) != h:
            raise CannotArrangeError(f"request {h} does not come in this order")
        self._requests[h] = self._prefill.create_sender(
            f"r{h}", [self._senders[h]], chunks=CHUNKS, now=self._now, retracted=retracted)
        self._poll(h)

    def _request(self, h: int) -> PrefillRequest:
        if h not in self._requests:
            raise CannotArrangeError(f"request {h} has not come")
        return self._requests[h]

    def complete(self, step: Step, name: str) -> None:
        """See Stage."""
        request = self._request(step.of(Life))
        if name == "landed":
            self._senders[step.of(Life)].word = KVPoll.SUCCESS
            self._poll(step.of(Life))
        elif request.computing:
            self._do(partial(self._prefill.chunk_done, request, self._now))
        else:
            raise CannotArrangeError(f"no chunk of {request.id} is being computed")

    def end_wait(self, step: Step, name: str) -> None:
        """See Stage."""
        if step.machine is tables.decode:
            self._do(partial(self._decode.fire, step.name, h=step.of(Life)))
        else:
            self._now += 2 * WAITS[name].seconds
            self._prefill.turn(self._now)

    def happen(self, step: Step) -> None:
        """See Stage. A row that the scheduler proposes at once has been proposed already."""
        h, name = step.of(Life), step.name
        if step.machine is tables.decode:
            self._do(partial(self._decode.fire, name, h=h, g=step.of(Page)))
        elif name in ("reserve", "reserve_early"):
            self._do(partial(self._prefill.ensure_metadata_buffer, self._request(h)))
        elif name in ("start", "start_again"):
            self._do(partial(self._prefill.start, self._now))
        elif name == "finalize":
            self._do(partial(self._prefill.finalize_bootstrap, self._request(h)))
        elif name in AT_ONCE:
            self._do(partial(self._prefill.turn, self._now))
        else:
            raise CannotArrangeError("the scheduler proposes no such row")

    def _do(self, action: Callable[[], object]) -> None:
        """Let a node act; what it raises is a turn that fails."""
        try:
            action()
        except ProtocolError as error:
            self.blame(STEADY, f"{type(error).__name__}: {error}")

    # Afterwards

    def rest(self) -> None:
        """See Stage."""
        for _ in range(ROUNDS):
            if not self._open() and not self._held():
                break
            self._now += ROUND_S
            self._serve_prefill()
            self._serve_decode()
        for end in self._open():
            self.blame(ENDS, f"{end} has not ended, {ROUNDS} rounds of a scheduler after the race")
        if held := self._held():
            self.blame(DRAINED, f"{held}, {ROUNDS} rounds of the scheduler after the race")

    def _serve_prefill(self) -> None:
        prefill = self._prefill
        for h in range(self._sizes[Life]):
            self._submit(h, retracted=False)
            if self._decode.value(tables.receiving, h) is Receiving.PUBLISHED and (
                    self._senders[h].word is KVPoll.BOOTSTRAPPING):
                self._senders[h].word = KVPoll.WAITING_FOR_INPUT
        self._do(partial(prefill.turn, self._now))
        while prefill.start(self._now) is not None:
            pass
        for ordered in prefill.orders():
            if ordered.order is Order.SEND and ordered.last:
                h = next(h for h, one in self._requests.items() if one is ordered.request)
                self._senders[h].word = KVPoll.SUCCESS
        for request in list(self._requests.values()):
            if request.computing:
                self._do(partial(prefill.chunk_done, request, self._now))

    def _serve_decode(self) -> None:
        decode = self._decode
        for h in range(self._sizes[Life]):
            state = decode.value(tables.receiving, h)
            if state is Receiving.NEW:
                self._do(partial(decode.call, "open", h))
            if state in OPEN and self._senders[h].aborted:
                self._do(partial(decode.receive, "failed", h))
            if state is Receiving.PUBLISHED and self._senders[h].word is KVPoll.SUCCESS:
                self._do(partial(decode.receive, "done", h))
            for g in range(self._sizes[Page]):
                if state is Receiving.ASKED:
                    self._do(partial(decode.fire, "grant", h=h, g=g))
                if decode.value(tables.page, h, g) and (
                        decode.value(tables.receiving, h) is Receiving.SUCCESS):
                    self._do(partial(decode.call, "finish", h, g))

    def _open(self) -> list[str]:
        ends = [f"request {h} at prefill" for h, one in self._requests.items()
                if one.stage not in ENDED]
        return ends + [f"request {h} at decode" for h in range(self._sizes[Life])
                       if self._decode.value(tables.receiving, h) in OPEN]

    def _held(self) -> str:
        for gauge, value in self._prefill.metrics.read().items():
            if gauge.startswith("num_optimistic") and value:
                return f"{gauge} is {value:g}"
        return ""
