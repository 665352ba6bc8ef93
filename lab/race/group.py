"""A group of ranks that agrees, on real nodes, of which each event waits for the race.

The nodes are those of servers (group/node.py). A frame of the entry to
its own rank waits as one between processes does.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Final

from lab.race.counterexample import Counterexample
from lab.race.network import Held
from lab.race.stage import REST_S, CannotArrangeError, Stage, Step
from lab.race.watching import TableWatch, Watching
from lab.sim.outcome import DRAINED, ENDS, PEERS
from pdproto.ground.grounding import ground_for
from pdproto.group.entry import Submitted
from pdproto.group.node import GroupNode
from pdproto.group.passes import PassOptions
from pdproto.group.rank import RankPart
from pdproto.node.link import Link
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.timers import Waits
from pdproto.runtime.batches import batch_of
from pdproto.runtime.wire import GroupFrame, Life
from pdproto.spec.handoff import group, group_attempts
from pdproto.spec.handoff.group import Decision, Rank
from pdproto.spec.handoff.roles import Attempt, Slot
from pdproto.spec.handoff.roles import Life as LifeSort
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.machine import Call, Table
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.system import System

NAME: Final = "group"
INCARNATION: Final = 7
PROPOSED: Final = ("decide_to_yield",)  # where another request needs the place
LOOK_S: Final = 0.5
SOON_S: Final = 0.05


class _Own(deque[GroupFrame]):
    """The frames of an entry to its own rank: they wait in the network as all others do."""

    def __init__(self, stage: "Group", name: str) -> None:
        super().__init__()
        self._stage: Final = stage
        self._name: Final = name

    def append(self, frame: GroupFrame) -> None:
        """See deque. The frame is under way until it is let go."""
        self._stage.say_itself(self._name, frame, super().append)


class Group(Stage):
    """The ranks of one counterexample. edited: the system that they run."""

    checks_rows = True

    def __init__(self, example: Counterexample, edited: System) -> None:
        super().__init__()
        sizes = example.bug.configuration.sizes
        self._sizes: Final = sizes
        self._system: Final = edited
        self._passes: Final = any(t.machine is group_attempts.rank for t in edited.tables)
        crashed = {Step(row).of(Rank) for row in example.rows if row.row.name == "crash"}
        self._entry: Final = min(set(range(sizes[Rank])) - crashed)
        self._waits: Final = example.waits
        self._added: Final = example.added
        self._taken: Final = {(Step(row).of(Rank), row.row.name) for row in example.rows
                              if row.table.machine.name == "rank"}
        self._sampled: Final = bool(example.related("sampled"))
        self._watch: Final = TableWatch(
            ground_for(edited, example.bug.configuration, example.given, Fairness.TIMERS),
            self._index, self.blame, lambda name: self.fired.update((name,)))
        names = {r: f"{NAME}.{r}" for r in range(sizes[Rank])}
        self._names: Final = names
        self._tables: Final = {table.machine.name: table for table in edited.tables}
        self._submitted: Final[dict[int, Submitted]] = {}
        self._passing: Final[dict[str, deque[GroupFrame]]] = {}
        messages = {symbol.name for symbol in edited.variables if not hasattr(symbol, "owner")}
        self.network.holds = lambda frame: frame.message.name in messages
        self.nodes: Final[dict[int, GroupNode]] = {r: self._node(r) for r in names}
        self.queue.run(SOON_S)

    def _ordered(self, name: str, rank: int) -> Table:
        """The table of a machine at this rank. Where several rows of a defect answer one event, a
        rank takes the one that it takes in the counterexample.
        """
        table = self._tables[name]
        first = [row for row in table.rows
                 if row.name in self._added and (rank, row.name) in self._taken]
        last = [row for row in table.rows
                if row.name in self._added and (rank, row.name) not in self._taken]
        others = [row for row in table.rows if row not in first and row not in last]
        return Table(table.machine, table.state, (*first, *others, *last))

    def _node(self, rank: int) -> GroupNode:
        host = self.host(self._names[rank], INCARNATION)
        trace = Watching(self._watch)
        passes, slots = None, self._sizes.get(Slot, 0)
        if self._passes:
            slots = self._sizes[LifeSort]
            settings = OptimisticSettings(
                slots=slots, running_slots=slots, retries=self._sizes[Attempt] - 1,
                bootstrap_timeout_s=self._waits.get(
                    "bootstrap_timeout", WAITS["bootstrap_timeout"].seconds),
                force_retry_probability=float(self._sampled))
            passes = PassOptions(settings, trace, {
                name: self._ordered(name, rank) for name in ("rank", "entry")})
        else:
            object.__setattr__(group.RANK, "rows", self._ordered("rank", rank).rows)
        node = GroupNode(
            NAME, self._names, me=rank, slots=slots, stop=_stopped, entry=self._entry, link=Link(),
            incarnation=INCARNATION, waits=self._waits, trace=None if self._passes else trace,
            passes=passes)
        node.members.own = _Own(self, node.core.name)
        host.run(node.core)
        return node

    def _index(self, sort: type[Sort], element: Hashable) -> int:
        if element is None:
            return -1
        if sort is LifeSort:
            return next((h for h, one in self._submitted.items() if one.life == element), -1)
        return int(element) if isinstance(element, int) and sort in (
            Rank, Decision, Slot, Attempt) else -1

    def say_itself(
        self, name: str, frame: GroupFrame, take: Callable[[GroupFrame], None]
    ) -> None:
        """A frame of a process to itself."""
        host = self.hosts[name]
        if self.network.flows or not self.network.holds(frame):
            take(frame)
            return
        batch = batch_of(name, INCARNATION, (frame,))

        def deliver() -> None:
            take(frame)
            host.wake()

        self.network.held.append(Held(host, name, batch, frame, deliver))

    # The race

    def frame(self, step: Step, message: str) -> Held:
        """See Stage."""
        life = self._life(step)
        rank, entry = self._names[step.of(Rank)], self._names[self._entry]
        number = step.of(Decision)
        for held in self.network.under_way:
            frame = held.frame
            if (frame.message.name == message and frame.life == life
                    and rank in (held.sender.name, held.target)
                    and {held.sender.name, held.target} <= {rank, entry}
                    and getattr(frame, "number", number) == number):
                return held
        raise CannotArrangeError(f"no frame {message} is under way between {entry} and {rank}")

    def tell(self, step: Step, message: str) -> None:
        """See Stage."""
        life = self._life(step)
        for held in [one for one in self.network.held
                     if one.frame.message.name == message and one.frame.life == life]:
            self.network.let_go(held)
        self.settle()

    def is_told(self, step: Step, message: str) -> bool:
        """See Stage. The end of a process is told by its connections."""
        if message not in ("lost", "left"):
            return False
        name = self._names[next(iter(step.row.environment.values()))]  # the one that has ended
        for rank, node in self._living():
            core = node.core
            peer = core.peers.get(name)
            if peer is not None and (message == "lost") == (rank == self._entry):
                self.hosts[core.name].ask(partial(core.connections.end, peer, "its process died"))
        return True

    def call(self, step: Step, name: str) -> None:
        """See Stage."""
        entry = self.nodes[self._entry]
        h = step.of(LifeSort)
        if step.machine.name == "entry" and name == "submit":
            self._submit(h)
        elif step.machine.name == "entry":
            self.hosts[entry.core.name].ask(
                lambda: entry.abort(self._request(h), "the client has left"))
        else:
            self._call_rank(step.of(Rank), name, self._life(step))

    def _submit(self, h: int) -> None:
        entry = self.nodes[self._entry]
        life = Life(h, INCARNATION, len(self._submitted))
        one = self._submitted[h] = Submitted(life, b"", request_id=str(h))
        self.hosts[entry.core.name].ask(lambda: entry.submit(one))

    def _call_rank(self, rank: int, name: str, life: Life) -> None:
        if rank in self._dead_ranks():
            raise CannotArrangeError(f"{self._names[rank]} has ended")
        rows = self._tables["rank"].rows
        if not any(isinstance(row.on, Call) and row.on.name == name for row in rows):
            raise CannotArrangeError(f"the table of a rank has no call {name}")
        node = self.nodes[rank]
        self.hosts[node.core.name].ask(lambda: node.call(name, life, f"the drill says {name}", 0))

    def _request(self, h: int) -> Submitted:
        if h not in self._submitted:
            raise CannotArrangeError(f"request {h} has not been submitted")
        return self._submitted[h]

    def _life(self, step: Step) -> Life:
        return self._request(step.of(LifeSort)).life

    def complete(self, step: Step, name: str) -> None:
        """See Stage. A device has computed chunks."""
        node = self.nodes[step.of(Rank)]
        life, passes = self._life(step), node.passes
        if passes is None:
            raise CannotArrangeError(f"no device reports {name}")
        self.hosts[node.core.name].ask(lambda: passes.computed(life, last=name == "last_chunk"))

    def end_wait(self, step: Step, name: str) -> None:
        """See Stage."""
        life = self._life(step)
        is_entry = step.machine.name == "entry"
        node = self.nodes[self._entry if is_entry else step.of(Rank)]
        host = self.hosts[node.core.name]
        if not any(waits.end(life, name, host.clock())
                   for waits in _waits(node, is_entry=is_entry)):
            raise CannotArrangeError(f"no clock {name} runs for {life} at {host.name}")
        host.wake()

    def happen(self, step: Step) -> None:
        """See Stage. A row that only the defect has is proposed here: no node knows its name."""
        if step.name == "crash":
            self.kill(self._names[step.of(Rank)])
            self._watch.act(step.row)
            return
        if step.machine.world:
            raise CannotArrangeError("no network does this")
        before = self.fired[step.name]
        self.settle()
        if self.fired[step.name] > before:
            return
        if step.machine.name == "rank" and step.name in self._added:
            self._propose(step)
        passes = self.nodes[self._entry].passes
        planner = None if passes is None else passes.planner
        if step.name in PROPOSED and planner is not None:
            planned = planner._planned[self._life(step)]

            def propose() -> None:
                planner._fire(step.name, planned)

            self.hosts[self._names[self._entry]].ask(propose)

    def _propose(self, step: Step) -> None:
        row, node = step.row, self.nodes[step.of(Rank)]
        host = self.hosts[node.core.name]
        chosen = {v.name: self._request(index).life if type(v) is LifeSort else index
                  for v, index in row.environment.items() if v not in row.table.machine.own}

        def fire() -> None:
            part = node.rank if node.passes is None else node.passes.rank
            taken = part._machine.fire(row.row.name, **chosen)
            if taken is None:
                return
            if isinstance(part, RankPart):
                part._follow(self._life(step), taken, host.clock())
            else:
                part._follow(self._life(step), taken)

        host.ask(fire)

    # Afterwards

    def _dead_ranks(self) -> set[int]:
        return {rank for rank, name in self._names.items() if name in self.dead}

    def _living(self) -> Iterator[tuple[int, GroupNode]]:
        dead = self._dead_ranks()
        return ((rank, node) for rank, node in self.nodes.items() if rank not in dead)

    def rest(self) -> None:
        """See Stage."""
        self.network.flow()
        until = self.queue.now + REST_S
        while self.queue.now < until:
            self._compute()
            self.queue.run(self.queue.now + LOOK_S)
            if self.seen or not (self._unanswered() or self._held()):
                break
        for h in self._unanswered():
            self.blame(ENDS, f"request {h} has no answer, {REST_S:g} s after the race")
        if held := self._held():
            self.blame(DRAINED, f"{held}, {REST_S:g} s after the race")
        for _, node in self._living():
            if refused := node.core.metrics.read().get("refused_frames"):
                self.blame(PEERS, f"{node.core.name} has refused {refused:g} messages")

    def _compute(self) -> None:
        """Schedulers take their decisions, and devices compute."""
        for _, node in self._living():
            node.rank.decisions.clear()
            node.rank.arrivals.clear()
            if (passes := node.passes) is None:
                continue
            for one in self._submitted.values():
                for row, last in (("finish_first", False), ("finish_last", True)):
                    if any(passes.rank._machine.enabled(row, h=one.life, a=a)
                           for a in range(self._sizes[Attempt])):
                        self.hosts[node.core.name].ask(
                            partial(passes.computed, one.life, last=last))

    def _unanswered(self) -> list[int]:
        return [h for h, one in self._submitted.items() if one.answer is None]

    def _held(self) -> str:
        for _, node in self._living():
            for gauge, value in node.core.metrics.read().items():
                if gauge.startswith("num_") and value:
                    return f"{node.core.name}: {gauge} is {value:g}"
        return ""


def _stopped(_: Life) -> bool:
    """The engine has stopped reading and writing."""
    return True


def _waits(node: GroupNode, *, is_entry: bool) -> Iterator[Waits[Life]]:
    """The clocks of a part of a rank."""
    if node.passes is not None:
        if node.passes.planner is not None:
            yield node.passes.planner._waits
        yield node.passes._repeats._waits
    if is_entry and node.decider is not None:
        yield node.decider._waits
    elif not is_entry:
        yield node.rank._waits
