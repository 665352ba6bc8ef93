"""Ranks, a registry and a sink that looks them up, of which each event waits for the race.

The registry, the sink's part and the rows of a rank are those of servers (registry/registry.py,
sink.py, registrar.py); the HTTP requests between them are played here.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from lab.race.counterexample import Counterexample
from lab.race.network import Held
from lab.race.stage import CannotArrangeError, Stage, Step
from lab.race.watching import TableWatch, Watching
from lab.sim.outcome import STEADY
from pdproto.ground.grounding import ground_for
from pdproto.registry import wire
from pdproto.registry.registry import Registry
from pdproto.registry.sink import SinkPart
from pdproto.registry.wire import Rank, RankAddress, Registration, Silent
from pdproto.runtime.errors import ProtocolError
from pdproto.runtime.store import Shared
from pdproto.runtime.trace_shared import shared
from pdproto.spec.handoff import bootstrap, registry, registry_world
from pdproto.spec.handoff.roles import Incarnation, Source
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import System

ROUNDS: Final = 8  # of requests and answers, at the end: more than any look-up needs
LISTED: Final = "L6_a_run_that_is_up_is_listed"
FOUND: Final = "L6_recovery"
EXPIRED: Final = "L7_registrations_expire"
ENDED: Final = "L1_bootstrap_ends"
SINK: Final = "d0"
At = tuple[int, int]  # a rank, and a run of it


class Registrations(Stage):
    """The processes of one counterexample. edited: the system that they run."""

    checks_rows = True

    def __init__(self, example: Counterexample, edited: System) -> None:
        super().__init__()
        sizes = example.bug.configuration.sizes
        self._count: Final = sizes[Source]
        self._added: Final = example.added
        self._watch: Final = TableWatch(
            ground_for(edited, example.bug.configuration, example.given, Fairness.TIMERS),
            self._index, self.blame, lambda name: self.fired.update((name,)))
        self._trace: Final = Watching(self._watch)
        self._registry: Final = Registry(traces={registry.SYSTEM.name: self._trace})
        # As after the end of all its ranks; before the first one no table of it runs.
        self._registry.server = self._registry.new_server(self._registration((0, 0)).topology)
        self._runs: Final[dict[At, Shared]] = {}
        self._asked: Final[set[At]] = set()  # have registered
        self._left: Final[set[At]] = set()  # have ended, or were renewed
        self._sink: SinkPart | None = None
        self._is_down = False
        self._answers: Final[list[dict[Rank, RankAddress] | None]] = []

    def settle(self) -> None:
        """See Stage. Every part acts when it is called."""

    def _index(self, sort: type[Sort], element: Hashable) -> int:
        if isinstance(element, Rank):
            return element.pp
        if sort is Incarnation and isinstance(element, tuple):
            return int(element[0]) - 1
        if isinstance(element, int):
            return element
        return 0 if element == SINK else -1

    @staticmethod
    def _rank(p: int) -> Rank:
        return Rank(0, 0, 0, p)

    def _registration(self, at: At) -> Registration:
        p, e = at
        return Registration(
            attn_tp_size=1, attn_tp_rank=0, pp_size=self._count, pp_rank=p, rank_ip="127.0.0.1",
            rank_port=5000 + 10 * p + e, incarnation=e + 1, name=f"p{p}")

    # The race

    @staticmethod
    def _at(step: Step) -> At:
        return step.of(Source), step.of(Incarnation)

    def frame(self, _step: Step, message: str) -> Held:
        """See Stage. Messages are requests and answers here."""
        raise CannotArrangeError(f"no frame {message} is under way")

    def _machine(self, step: Step) -> Shared:
        at = self._at(step)
        if at not in self._runs:
            raise CannotArrangeError(f"run {at[1]} of rank {at[0]} has not begun")
        return self._runs[at]

    def _part(self) -> SinkPart:
        if self._sink is None:
            raise CannotArrangeError("the sink has not begun")
        return self._sink

    def call(self, step: Step, name: str) -> None:
        """See Stage."""
        if name == "start":
            self._start(self._at(step))
        elif name == "stop":
            self._do(partial(self._machine(step).call, "stop"))
            self._left.add(self._at(step))
        elif name == "open" and self._sink is None:
            self._sink = SinkPart(SINK, [self._rank(p) for p in range(self._count)], self._trace)
        elif name not in ("open", "clear"):
            raise CannotArrangeError(f"no process has a call {name}")

    def _start(self, at: At, row: str = "start") -> None:
        rank, number = self._rank(at[0]), (at[1] + 1, self._rank(at[0]))
        self._runs[at] = shared(registry.SOURCE, (rank, number), trace=self._trace)
        self._runs[at].apply_fault(registry_world.OPERATOR, row, p=rank, e=number, z=number)
        known = next(r for r in registry_world.OPERATOR.rows if r.name == "start")
        self._watch.take(known, at)

    def is_told(self, step: Step, message: str) -> bool:
        """See Stage."""
        rank, at = self._rank(step.of(Source)), self._at(step)
        run = wire.Run(*rank, at[1] + 1)
        match message:
            case "register":
                self._register(at)
            case "goodbye":
                self._do(partial(self._registry.deregister, run))
            case "recorded":
                self._do(partial(self._machine(step).receive, bootstrap.recorded, *self._own(at)))
            case "outdated":
                self._renew(at)
            case "lookup":
                self._answers.append(self._look_up())
            case "located":
                self._hear(self._answered(at))
            case "unlocated":
                if self._part().question is None:
                    raise CannotArrangeError("the sink has no question")
                self._hear(None)
            case _:
                raise CannotArrangeError(f"{message} is a message between nodes")
        return True

    def _own(self, at: At) -> tuple[Rank, tuple[int, Rank]]:
        return self._rank(at[0]), (at[1] + 1, self._rank(at[0]))

    def _register(self, at: At) -> bool:
        """The registry gets a registration. Returns whether it has recorded the run."""
        if self._is_down:
            return False
        try:
            self._registry.register(self._registration(at), self.queue.now)
        except wire.RefusedError as error:
            if error.exceed is not None and at not in self._left:
                self._renew(at)
            return False
        except ProtocolError as error:
            self.blame(STEADY, f"registry: {error}")
        return True

    def _renew(self, at: At) -> None:
        """The process takes a greater number."""
        if at in self._left:
            return
        later = at[0], max(e for p, e in self._runs if p == at[0]) + 1
        self._do(partial(self._runs[at].receive, bootstrap.outdated, *self._own(at),
                         (later[1], self._rank(at[0]))))
        self._left.add(at)
        self._start(later)

    def _look_up(self) -> dict[Rank, RankAddress] | None:
        question = self._part().question
        if self._is_down or question is None:
            raise CannotArrangeError("the sink has no question, or no registry hears it")
        try:
            found = self._registry.directory(question)
        except wire.RefusedError:
            return None
        return {Rank(one.dp, one.cp, one.tp, one.pp): one.address for one in found["ranks"]}

    def _answered(self, at: At) -> dict[Rank, RankAddress]:
        """An answer under way that names this run."""
        for answer in self._answers:
            if answer and answer[self._rank(at[0])].incarnation == at[1] + 1:
                return answer
        raise CannotArrangeError(f"no answer under way names run {at[1]} of rank {at[0]}")

    def _hear(self, answer: dict[Rank, RankAddress] | None) -> None:
        part = self._part()
        if answer is None:
            self._do(part.hear_unlocated)
        else:
            self._do(partial(part.hear_located, answer))

    def complete(self, _step: Step, name: str) -> None:
        """See Stage."""
        raise CannotArrangeError(f"no device reports {name}")

    def end_wait(self, step: Step, name: str) -> None:
        """See Stage."""
        match name:
            case "no_sign_of_life":
                self._strike_out(self._at(step))
            case "registry_unreachable":
                self._do(self._part().give_up)
            case "no_answer":
                self._do(self._part().look_again)
            case "heartbeat":
                self._lose(self._at(step))
            case "sign_of_life" | "not_recorded":
                self._do(partial(self._machine(step).fire, step.name))
            case _:
                raise CannotArrangeError(f"no clock {name} runs here")

    def _strike_out(self, at: At) -> None:
        server = self._registry.server
        run = None if server is None else server.runs[self._rank(at[0])].get(at[1] + 1)
        if run is not None:
            self._do(partial(self._registry.strike_out,
                             Silent(self._rank(at[0]), at[1] + 1, run.heard_at)))

    def _lose(self, at: At) -> None:
        self._do(partial(self._part().lose, self._rank(at[0]), at[1] + 1))

    def happen(self, step: Step) -> None:
        """See Stage."""
        match step.name:
            case "enroll":
                self._do(partial(self._machine(step).fire, "enroll"))
                self._asked.add(self._at(step))
            case "crash":
                self._left.add(self._at(step))
                self._watch.act(step.row)
            case "go_down":
                self._is_down = True
                self._watch.act(step.row)
            case "start_out_of_order":
                self._start(self._at(step))
            case "find_silent" | "come_back":
                self._watch.act(step.row)
            case "go_on" if step.name in self._added:
                part = self._part()
                self._do(partial(part._machine.fire, step.name, h=0))
            case "complete" | "fill" | "filled" | "forget" | "call_on" | "connect":
                pass  # they are taken at once
            case _:
                raise CannotArrangeError("no process does this")

    def _do(self, action: Callable[[], object]) -> None:
        """Let a process act. What it raises is a turn that fails."""
        try:
            action()
        except wire.RefusedError:
            return
        except ProtocolError as error:
            self.blame(STEADY, f"{type(error).__name__}: {error}")

    # Afterwards

    def rest(self) -> None:
        """See Stage."""
        for _ in range(ROUNDS):
            self._serve_ranks()
            self._serve_sink()
        if not self._is_down:
            self._check_registry()
        self._check_sink()

    def _serve_ranks(self) -> None:
        for at in [at for at in self._runs if at not in self._left]:
            self._do(partial(self._runs[at].fire, "enroll"))
            if self._register(at) and at not in self._left:
                self._do(partial(self._runs[at].receive, bootstrap.recorded, *self._own(at)))
        for at in [] if self._is_down else self._left:
            if self._current(at[0]) == at[1]:
                self._strike_out(at)

    def _current(self, p: int) -> int | None:
        server = self._registry.server
        number = None if server is None else server.current(self._rank(p))
        return None if number is None else number - 1

    def _serve_sink(self) -> None:
        part = self._sink
        if part is None:
            return
        for rank, address in dict(part.found or {}).items():
            if (rank.pp, address.incarnation - 1) in self._left:
                self._lose((rank.pp, address.incarnation - 1))
        if part.question is None:
            return
        if self._is_down:
            self._do(part.give_up)
        else:
            self._hear(self._look_up())

    def _check_registry(self) -> None:
        for p in range(self._count):
            up = [e for q, e in self._runs if q == p and (q, e) not in self._left]
            current = self._current(p)
            if up and current not in up:
                self.blame(LISTED, f"run {up[0]} of rank {p} is up, and the registry does not list "
                                   f"it, after {ROUNDS} registrations")
            if current is not None and (p, current) in self._left:
                self.blame(EXPIRED, f"the registry lists run {current} of rank {p}, which has "
                                    f"ended")

    def _check_sink(self) -> None:
        part = self._sink
        if part is None:
            return
        current = {self._rank(p): self._current(p) for p in range(self._count)}
        if not self._is_down and None not in current.values():
            found = {rank: address.incarnation - 1 for rank, address in (part.found or {}).items()}
            if found != current:
                self.blame(FOUND, f"{SINK} has found {found or 'nothing'}, and the registry lists "
                                  f"{current}, after {ROUNDS} look-ups")
        elif not part._handover:
            self.blame(ENDED, f"the look-up of {SINK} has not failed, after {ROUNDS} answers")
