"""From runs to traces: lanes, steps, arrows, and why no row fires at the end.

Every counterexample and every witness is replayed by the plain interpreter before it is drawn
(witness.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Final

from pdproto.check.interpret import Interpreter
from pdproto.check.questions import LeadsToInstance, Question
from pdproto.check.result import Arrow, Blocked, Change, Lane, PropertyKind, Trace, TraceStep
from pdproto.check.runs import NoRunError, RealRun, Transition
from pdproto.check.witness import Witness
from pdproto.check.words import formula_text, trigger_text
from pdproto.ground.channels import Queue
from pdproto.ground.grounding import Environment, Ground, GroundRow
from pdproto.ground.layout import Cell, Indices, cell_name
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Instance, Machine
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent

BLOCKED_MAX: Final = 24  # rows explained in a stuck state: more would tire a reader


class Narrator:
    """Makes traces from runs of one ground system."""

    def __init__(self, ground: Ground, questions: Sequence[Question]) -> None:
        self.ground: Final = ground
        self.always: Final = [
            q for q in questions if q.kind in (PropertyKind.ALWAYS, PropertyKind.EDGES)
        ]

    @cached_property
    def witness(self) -> Witness:
        """Takes each run before it is drawn."""
        return Witness(self.ground)

    def showing(self, question: Question, moves: RealRun) -> tuple[Trace, str]:
        """A run to a state with one of the patterns, and the elements of the first that it has.

        This method and the next two raise NoRunError for a run that does not show its claim.
        """
        instance = next(
            (p.instance for p in question.patterns if p.guard.holds(moves.end)), None)
        if instance is None:
            raise NoRunError(f"a run to {question.name} ends in a state without its patterns")
        self._must_show(question.name, self.witness.shows(moves, question, instance))
        return self.trace(moves), instance

    def deadlocked(self, moves: RealRun) -> Trace:
        """A run to a deadlock, with the reasons why no row fires."""
        self._must_show("a deadlock", self.witness.is_stuck(moves))
        return self.trace(moves, blocked=True)

    def unfulfilled(
        self, obligation: LeadsToInstance, fairness: Fairness, moves: RealRun,
        loop: int | None,
    ) -> Trace:
        """A fair run on which a goal is never reached."""
        self._must_show(
            obligation.claim.name, self.witness.never_reaches(obligation, fairness, moves, loop))
        return self.trace(moves, loop=loop, blocked=loop is None)

    def unrefined(self, claim: Refines, over: Environment, moves: RealRun) -> Trace:
        """A run whose last step no row of the abstract system takes."""
        self._must_show(claim.name, self.witness.leaves(claim, over, moves))
        return self.trace(moves)

    def _must_show(self, what: str, problem: str) -> None:
        if problem:
            raise NoRunError(f"the run that was found for {what} does not show it: {problem}")

    def trace(
        self, moves: RealRun, *, loop: int | None = None, blocked: bool = False
    ) -> Trace:
        """The run as lanes and steps.

        loop: the index of the first step that repeats for ever; None if none does. blocked: explain
        why no row fires in the last state.
        """
        steps = tuple(self.step(move) for move in moves)
        seen = {step.lane for step in steps} | {
            lane
            for step in steps
            for arrow in (*step.sent, *step.lost, *((step.received,) if step.received else ()))
            for lane in (arrow.sender, *arrow.receivers)
        }
        lanes = tuple(lane for lane in self.lanes() if lane.name in seen) or tuple(self.lanes())
        return Trace(
            lanes,
            tuple(self._start({lane.name for lane in lanes}, moves.start)),
            steps,
            loop,
            self.blocked(moves.end) if blocked else (),
            self._holds(moves.start),
        )

    def lanes(self) -> Iterable[Lane]:
        """Every process of the system, in the order of its machines."""
        for machine in self.ground.system.machines:
            for indices in product(*(range(self.ground.sizes[sort]) for sort in machine.sorts)):
                yield Lane(lane_name(machine, indices), machine.name)

    def _start(self, lanes: set[str], state: int) -> Iterator[Change]:
        """The initial value of each lane's state variable, and of those that start free."""
        main = [table.state for table in self.ground.system.tables]
        for symbol, at, (value,) in self.ground.layout.texts(state):
            lane = lane_name(symbol.owner, at[: len(symbol.owner.own)])
            if symbol.starts_free or (symbol in main and lane in lanes):
                yield Change(lane, cell_name(symbol, at), "", value)

    def step(self, move: Transition) -> TraceStep:
        """One step with its messages, its changes, and the properties that hold after it."""
        row = move.row
        received = None
        if isinstance(row.row.on, Sent):
            received = self._arrow(row.row.on.message, self._indices(row.row.on.arguments, row))
        changes, sent, lost = self._differences(move)
        consumed = received.message if received and self.ground.consume else None
        if received is not None and row.table.machine.world:
            lost, received = (*lost, received), None  # the network has taken it off a channel
        return TraceStep(
            row=row.row.name,
            parameters=row.parameters,
            lane=lane_name(row.table.machine, self._indices(row.table.machine.own, row)),
            trigger=trigger_text(row.row.on, row.environment),
            why=row.row.why,
            place=row.row.place,
            fault=row.layer,
            received=received,
            sent=sent,
            lost=tuple(arrow for arrow in lost if arrow.message != consumed),
            changes=changes,
            holds=self._holds(move.after),
        )

    def _holds(self, state: int) -> dict[str, bool]:
        """For each property of single states, whether it holds in this state."""
        return {
            question.name: not any(p.guard.holds(state) for p in question.patterns)
            for question in self.always
        }

    def _indices(self, arguments: tuple[Sort, ...], row: GroundRow) -> Indices:
        return self.ground.cell(arguments, row.environment)

    def _differences(
        self, move: Transition
    ) -> tuple[tuple[Change, ...], tuple[Arrow, ...], tuple[Arrow, ...]]:
        """The effects of a step: changed variables, messages sent, messages removed.

        The row's update gives the messages sent, because a message may be sent again.
        """
        sent: list[Arrow] = []
        lost: list[Arrow] = []
        layout = self.ground.layout
        changes = tuple(
            Change(lane_name(symbol.owner, at[: len(symbol.owner.own)]), cell_name(symbol, at),
                   before, after)
            for symbol, at, (before, after) in layout.texts(move.before, move.after)
            if before != after
        )
        changes += tuple(self._waiting(move))
        sent += [self._arrow(*letter)
                 for turn in self.ground.turns(move.row.row, move.row.environment).values()
                 for letter in turn.sent]
        touched = move.row.action.clear | move.row.action.assign
        for (symbol, indices), field in layout.fields.items():
            if not touched & field.mask or not isinstance(symbol, Message) or symbol.fifo:
                continue
            before = layout.value(move.before, symbol, indices)
            after = layout.value(move.after, symbol, indices)
            if after is True:
                sent.append(self._arrow(symbol, indices))
            elif before is True:
                lost.append(self._arrow(symbol, indices))
        return changes, tuple(sent), tuple(lost)

    def _waiting(self, move: Transition) -> Iterator[Change]:
        """The channels that a step changes, with the messages in them in order."""
        queues = self.ground.queues
        for queue in self.ground.turns(move.row.row, move.row.environment):
            before, after = (queues.text(state, queue) for state in (move.before, move.after))
            yield Change(*channel_name(queue), before, after)

    def _arrow(self, message: Message[*tuple[Any, ...]], indices: Indices) -> Arrow:
        given = dict(zip(message.formals, indices, strict=True))
        (sender,) = self._addressed(message.sender, given)
        return Arrow(
            cell_name(message, indices), sender, tuple(self._addressed(message.receiver, given))
        )

    def _addressed(self, instance: Instance, given: dict[Sort, int]) -> Iterable[str]:
        """The lanes of an instance. A variable that the message does not name stands for all."""
        choices = [
            (given[variable],) if variable in given else range(self.ground.sizes[type(variable)])
            for variable in instance.variables
        ]
        return (lane_name(instance.machine, indices) for indices in product(*choices))

    def blocked(self, state: int) -> tuple[Blocked, ...]:
        """Why each fair row is disabled in the state; rows with the fewest failing parts first.

        Rows that are enabled but change nothing are not listed.
        """
        ground = self.ground
        interpreter = Interpreter(ground.system, ground.sizes, ground.faults, ground.given)
        values = ground.layout.decode(state)
        explained: dict[tuple[str, str], Blocked] = {}
        for row in ground.rows:
            if row.layer or not row.row.is_fair or row.row.kind != "row":
                continue
            failing = tuple(
                formula_text(part, row.environment)
                for part in row.table.guard(row.row).parts
                if not interpreter.holds(part, values, row.environment)
            )
            if not failing and self._is_taken(row, values):
                failing = (f"{trigger_text(row.row.on, row.environment)}, taken already",)
            if failing:
                lane = lane_name(row.table.machine, self._indices(row.table.machine.own, row))
                blocked = Blocked(row.row.name, row.parameters, lane, failing)
                explained[row.row.name, row.parameters] = blocked
        nearest = sorted(explained.values(), key=lambda blocked: len(blocked.failing))
        return tuple(nearest[:BLOCKED_MAX])

    def _is_taken(self, row: GroundRow, values: Mapping[Cell, Value]) -> bool:
        """Whether the instance has already taken the broadcast that triggers the row."""
        if not isinstance(row.row.on, Sent):
            return False
        own = self._indices(row.table.machine.own, row)
        at = self._indices(row.row.on.arguments, row)
        return any(values[cell] is True
                   for cell in self.ground.deliveries.marks_of(row.row.on.message, own, at))


def channel_name(queue: Queue) -> tuple[str, str]:
    """The lane of a channel's receiver, and the channel there: `from client c0`."""
    channel, ends = queue
    own = len(channel.sender.sorts)
    return (lane_name(channel.receiver, ends[own:]),
            f"from {lane_name(channel.sender, ends[:own])}")


def lane_name(machine: Machine[*tuple[Any, ...]], indices: Indices) -> str:
    """The text of an instance: `participant p0`; a single instance has its machine's name."""
    elements = [sort.element(i) for sort, i in zip(machine.sorts, indices, strict=True)]
    return " ".join([machine.name, *elements])
