"""One behaviour of the whole system from the lines of a hand-over's endpoints, if there is one.

Lines of an endpoint keep their order, and a message is sent before it is received. Within these
limits the search tries orders, first that of the replay, until all lines are placed:

* In each state every `Always` holds, and before each row its `OnRow` properties.
* A device tells each endpoint of its row by itself, later than the row fired. So at the first such
  line there is a state, since then or before, in which the whole guard of the row holds and its
  `OnRow` properties. At each line its properties about the variables of that endpoint hold again.
* A message that no line sends comes from a row of the world or of a fault whose guard holds. If a
  fault changes variables of an endpoint, that endpoint has no further line.

Endpoints without a trace, and those whose trace is cut, have unknown values from then on. A guard
may hold there, and no property is violated by them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pdproto.check.trace.cuts import (
    Cut,
    Fired,
    Member,
    Placement,
    Problem,
    Rows,
    imaged,
    kept,
    order_of,
)
from pdproto.check.trace.events import Came, Event
from pdproto.check.trace.search import NextLineError, search
from pdproto.check.trace.table import AnyMessage, GroundedRow
from pdproto.check.trace.whole import Whole, WorldRow, may_hold, violated
from pdproto.ground.layout import Indices


def merge(whole: Whole, members: Sequence[Member], unknown: int) -> Placement:
    """Place all lines. unknown: the bits of endpoints without a trace.

    If there is no order, detectors of faults may be mistaken.
    """
    merged = Merge(whole, members, unknown, mistakes=False).run()
    if merged.problem is None or not any(
            event.assumed and event.ground is None for one in members for event in one.events):
        return merged
    return Merge(whole, members, unknown, mistakes=True).run()


@dataclass(slots=True)
class Merge:
    """The search. mistakes: a fault may be heard that has not happened."""

    whole: Whole
    members: Sequence[Member]
    unknown: int
    mistakes: bool
    _rows: dict[WorldRow, int] = field(default_factory=dict)  # with the bit of each

    def __post_init__(self) -> None:
        for member in self.members:
            for event in member.events:
                for row in self._meant(member, event):
                    self._rows.setdefault(row, 1 << len(self._rows))

    def _meant(self, member: Member, event: Event) -> Iterator[WorldRow]:
        """The rows without a trace that a line may tell of."""
        for ground in event.devices:
            yield from self._images(member, ground)
        if event.assumed and event.ground is None and event.message is not None:
            message, at = event.message
            for indices in self.whole.cells(message, at, member.images):
                yield from self.whole.senders(message, indices)

    def _images(self, member: Member, ground: GroundedRow) -> Iterator[WorldRow]:
        table = next(table for table in self.whole.system.tables if ground.row in table.rows)
        for environment in imaged(ground.environment, member.images):
            yield self.whole.world(table, ground.row, "", environment)

    def run(self) -> Placement:
        """Place all lines. Returns the first order that is a behaviour."""
        first = self._possible(Cut(None, (0,) * len(self.members), 0, 0, self.unknown))
        total = sum(len(member.events) for member in self.members)
        found = search(
            first, total, depth=lambda cut: cut.depth, nexts=self._nexts, after=self._after,
            key=lambda cut: (cut.places, cut.fired, cut.possible))
        cut, error = found.cut, found.error
        if found.undecided:
            return Placement(order_of(cut), undecided=True)
        if cut.depth == total:
            return Placement(order_of(cut), faults=cut.faults, mistaken=cut.mistaken)
        return Placement(order_of(cut), None if error is None else Problem(
            found.number, cut.places[found.number], error.why, error.claim))

    def _nexts(self, cut: Cut) -> Iterator[int]:
        """The members that have another line; first the one whose line the replay placed first."""
        left = [(member.events[place].number, number) for number, (member, place)
                in enumerate(zip(self.members, cut.places, strict=True))
                if place < len(member.events)]
        return iter([number for _, number in sorted(left)])

    # One line

    def _after(self, cut: Cut, number: int) -> Cut:
        """The state after the next line of a member. Raises NextLineError."""
        member = self.members[number]
        event = member.events[cut.places[number]]
        told, fired, faults, mistaken = cut.told, cut.fired, cut.faults, cut.mistaken
        unknown = cut.unknown
        if event.message is not None:
            try:
                told, fired = self._received(cut, member, event, event.message)
            except NextLineError as error:
                if not (self.mistakes and error.why and event.ground is None):
                    raise
                told |= self._message(member, event.message)
                mistaken = (*mistaken, cut.depth)
                unknown |= self._doubted(member, event.message)
        if event.ground is not None:
            self._row(cut, told, member, event.ground)
        elif event.devices:
            fired = self._device(cut, member, event)
        if any(one.row.layer and one not in cut.fired for one in fired):
            faults = (*faults, cut.depth)
        bits = self.whole.state(event.local, event.after, member.images, member.key)
        changed = (told ^ bits) & member.mask
        told ^= changed
        if event.ground is not None:
            told |= self._sent(member, event.ground)
        if fired and changed:
            fired = tuple(one for each in fired if (one := kept(each, changed, event)) is not None)
        places = (*cut.places[:number], cut.places[number] + 1, *cut.places[number + 1:])
        if not member.whole and places[number] == len(member.events):
            unknown |= member.mask
        true = told
        for one in fired:
            true = true & ~one.untold | one.row.action.assign & one.untold
        claim = self.whole.broken(told, unknown)
        if claim and (true == told or self.whole.broken(true, unknown)):
            raise NextLineError(f"{claim} is violated after it", claim)
        return self._possible(Cut(cut, places, told, true, unknown, cut.depth + 1, number, fired,
                                  self._left(cut, fired), faults, mistaken))

    def _possible(self, cut: Cut) -> Cut:
        """Note the rows that can fire in this state."""
        for row, bit in self._rows.items():
            if not cut.possible & bit and row.guard is not None and may_hold(
                    row.guard, cut.true, cut.unknown) and not violated(
                        row.claims, cut.true, cut.unknown):
                cut.possible |= bit
        return cut

    def _left(self, cut: Cut, fired: Rows) -> int:
        """The rows that were possible, without those that contradict one that has fired since.

        They would have made its guard false, or have another effect on the same variable.
        """
        possible = cut.possible
        for one in fired:
            if all(other.row is not one.row for other in cut.fired):
                used = (one.row.action.clear | one.row.reads) & ~cut.unknown
                for row, bit in self._rows.items():
                    if row.action.clear & used:
                        possible &= ~bit
        return possible

    def _row(
        self, cut: Cut, told: int, member: Member, ground: GroundedRow
    ) -> None:
        environment = next(imaged(ground.environment, member.images), None)
        if environment is None:
            return
        claims = self.whole.on_row(ground.row, environment)
        claim = violated(claims, told, cut.unknown)
        if claim and (cut.true == cut.told or violated(claims, cut.true, cut.unknown)):
            raise NextLineError(f"{claim} is violated where {ground.row.name} fires", claim)

    def _sent(self, member: Member, ground: GroundedRow) -> int:
        bits = 0
        for sent in ground.sent:
            bits |= self._message(member, sent)
        return bits

    def _doubted(self, member: Member, came: Came) -> int:
        """The variables of the endpoints that are mistaken for dead. What devices of the others
        do, and what holds there, does not depend on them any more.
        """
        message, at = came
        bits = 0
        for indices in self.whole.cells(message, at, member.images):
            bits |= self.whole.sender(message, indices)
        return bits

    def _message(self, member: Member, sent: Came) -> int:
        message, at = sent
        bits = 0
        for indices in self.whole.cells(message, at, member.images):
            bits |= self.whole.message(message, indices)
        return bits

    # Messages

    def _received(
        self, cut: Cut, member: Member, event: Event, came: Came
    ) -> tuple[int, Rows]:
        """The state in which the message has come. Raises NextLineError if nothing sends it."""
        message, at = came
        told, fired = cut.told, cut.fired
        for indices in self.whole.cells(message, at, member.images):
            bits = self.whole.message(message, indices)
            if told & bits == bits:
                continue
            if not event.assumed:
                raise NextLineError  # a line sends it, and must come first
            told |= bits
            if event.ground is None:
                fired = self._faulty(cut, fired, message, indices)
            elif any(place < len(one.events) and one.mask & self.whole.sender(message, indices)
                     for one, place in zip(self.members, cut.places, strict=True)):
                raise NextLineError  # it was sent after all lines that are left of its sender
        return told, fired

    def _faulty(
        self, cut: Cut, fired: Rows, message: AnyMessage, at: Indices
    ) -> Rows:
        """Let a row of the world or of a fault send the message. Raises NextLineError."""
        why, waits = [], False
        bits = self.whole.message(message, at)
        for one in fired:
            if one.row.action.assign & bits:
                return fired
        for row in self.whole.senders(message, at):
            if row.layer and self._goes_on(cut, row):
                waits = True
                continue
            if cut.possible & self._rows[row]:
                return (*fired, Fired(row, row.variables & ~cut.unknown))
            why.append(self._why(cut, row))
        if waits:
            raise NextLineError(f"no line sends {message.name}, and the process that would have "
                                "died goes on")
        raise NextLineError("; ".join(why) or f"nothing sends {message.name}")

    # Devices

    def _device(self, cut: Cut, member: Member, event: Event) -> Rows:
        """Let a row of a device have fired that explains the line. Raises NextLineError."""
        errors = []
        for ground in event.devices:
            fired = cut.fired
            try:
                for row in self._images(member, ground):
                    fired = self._told(cut, fired, row, member)
            except NextLineError as error:
                errors.append(error)
            else:
                return fired
        raise max(errors, key=lambda error: bool(error.claim), default=NextLineError())

    def _told(
        self, cut: Cut, fired: Rows, row: WorldRow, member: Member
    ) -> Rows:
        """The rows that have fired, after the member has told of this one."""
        own = [(name, guard) for name, guard in row.claims if not guard.reads & ~member.mask]
        claim = violated(own, cut.told, 0)
        if claim:
            raise NextLineError(f"{claim} is violated where {row.row.name} fires", claim)
        for one in fired:
            if one.row is row and one.untold & member.mask:
                told = one._replace(untold=one.untold & ~member.mask)
                return tuple(told if other is one else other for other in fired)
        if not cut.possible & self._rows[row]:
            fired = (*fired, self._fault_before(cut, row))
        return (*fired, Fired(row, row.variables & ~member.mask & ~cut.unknown))

    def _fault_before(self, cut: Cut, row: WorldRow) -> Fired:
        """A fault after which the row can fire. Raises NextLineError if there is none."""
        for fault in self.whole.faults(row.reads):
            if self._goes_on(cut, fault) or fault.guard is None or not may_hold(
                    fault.guard, cut.true, cut.unknown):
                continue
            after = fault.action.apply(cut.true)
            if row.guard is not None and may_hold(
                    row.guard, after, cut.unknown) and not violated(
                        row.claims, after, cut.unknown):
                return Fired(fault, fault.variables & ~cut.unknown)
        raise NextLineError(self._why(cut, row), violated(row.claims, cut.true, cut.unknown))

    def _goes_on(self, cut: Cut, fault: WorldRow) -> bool:
        """Whether an endpoint that the fault would change has another line."""
        return any(fault.variables & one.mask and place < len(one.events)
                   for one, place in zip(self.members, cut.places, strict=True))

    def _why(self, cut: Cut, row: WorldRow) -> str:
        """Why the row cannot fire in this state."""
        needs = self.whole.missing(row, cut.true, cut.unknown)
        claim = violated(row.claims, cut.true, cut.unknown)
        parts = [f"needs {'; '.join(needs)}"] if needs else []
        parts += [f"violates {claim}"] if claim else []
        return f"{row.row.name} cannot have fired: it {' and '.join(parts) or 'has fired already'}"
