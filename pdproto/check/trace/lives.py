"""The hand-overs of a run, each examined as a whole: one behaviour of all its endpoints.

Endpoints that share an element which is no name of a node (a life) belong together. Each endpoint
names its memory and its chunks by numbers of its own, so what two hand-overs share does not appear
in a trace: a buffer of one is never taken for a buffer of another.

Many hand-overs go the same way. The search is done once for all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pdproto.check.trace.cuts import Member, Placement
from pdproto.check.trace.events import Event
from pdproto.check.trace.files import File, Process
from pdproto.check.trace.instance import Instance, words
from pdproto.check.trace.lines import Element
from pdproto.check.trace.merge import merge
from pdproto.check.trace.replay import Replay
from pdproto.check.trace.table import LocalTable
from pdproto.check.trace.whole import AnyRigid, Images, Whole
from pdproto.ground.layout import Indices, TooLargeError
from pdproto.ground.local import index_tuples
from pdproto.spec.language.machine import Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message
from pdproto.spec.language.system import System

Names: TypeAlias = Mapping[type[Sort], Sequence[Element]]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A line that no order of the lines of its hand-over allows. run: the events before it."""

    instance: Instance
    event: Event
    why: str
    claim: str
    run: tuple[tuple[Instance, Event], ...]


@dataclass(slots=True)
class Examined:
    """The result for all hand-overs. wrong: the first line, if any. assumes: see ReplayResult."""

    wrong: Wrong | None = None
    assumes: dict[str, None] = field(default_factory=dict)


class Lives:
    """Examines the hand-overs of a replay that has come to its end."""

    def __init__(self, replay: Replay) -> None:
        self.replay: Final = replay
        self.system: Final[System] = replay.tables.system
        self._given: Final[dict[str, list[File]]] = {}
        for file in replay.files:
            self._given.setdefault(file.node, []).append(file)
        self._wholes: Final[dict[tuple[object, ...], Whole]] = {}
        self._merged: Final[dict[tuple[object, ...], Placement]] = {}

    def examine(self) -> Examined:
        """Find an order for the lines of each hand-over."""
        examined = Examined()
        if any(isinstance(s, Message) and s.fifo is not None for s in self.system.variables):
            examined.assumes["each hand-over is a run of the whole system: one with channels is "
                           "examined line by line"] = None
            return examined
        for instances in self._together():
            self._life(instances, examined)
        return examined

    def _together(self) -> Iterator[list[Instance]]:
        """The endpoints of each hand-over."""
        lives: dict[tuple[Element, ...], list[Instance]] = {}
        for instance in self.replay.instances():
            shared = tuple(one for one in instance.own if not isinstance(one, str))
            if None in instance.own:
                yield [instance]  # it has never met another
            else:
                lives.setdefault(shared, []).append(instance)
        yield from lives.values()

    def _life(self, instances: list[Instance], examined: Examined) -> None:
        try:
            key, members, whole, unknown = self._members(instances)
        except (TooLargeError, SpecError) as error:
            examined.assumes[f"each hand-over is a run of the whole system: {error}"] = None
            return
        merged = self._merged.get(key)
        if merged is None:
            merged = self._merged[key] = merge(whole, members, unknown)
        order = _placed(instances, merged.order)
        if merged.undecided:
            own = " ".join(map(words, instances[0].own))
            examined.assumes[f"{own} is a run of the whole system: too many orders of its lines "
                             "are possible"] = None
        elif merged.problem is not None:
            problem = merged.problem
            instance = instances[problem.member]
            event = instance.events[problem.place]
            if examined.wrong is None or event.number < examined.wrong.event.number:
                examined.wrong = Wrong(instance, event, problem.why, problem.claim, tuple(order))
        else:
            for place in merged.faults:
                self._heard(*order[place], instances, examined)
            for place in merged.mistaken:
                self._heard(*order[place], instances, examined, mistaken=True)

    def _heard(
        self, hearer: Instance, event: Event, instances: Sequence[Instance], examined: Examined, *,
        mistaken: bool = False,
    ) -> None:
        """Note that a process has died, or that its death is heard although it goes on."""
        for node in self._others(hearer, event):
            processes = self._processes(node, instances)
            if not processes:
                continue
            heard = f"{hearer.node} hears that {node} has died"
            if mistaken or all(one.knows[hearer.key[0]] >= event.at for one in processes):
                examined.assumes[f"{heard}, which goes on: the tables have no mistaken detector"
                               ] = None
            elif all(one.whole for one in processes):
                examined.assumes[f"{heard}: its last lines may be missing"] = None

    @staticmethod
    def _others(hearer: Instance, event: Event) -> Iterator[str]:
        """The nodes of which the line tells: the sender of a message, or all that a device names.
        """
        if event.message is not None:
            message, at = event.message
            named = dict(zip(message.formals, at, strict=True))
            names = [hearer.names[type(v)][named[v]] for v in message.sender.variables]
        else:
            names = [hearer.names[type(variable)][index] for ground in event.devices
                     for variable, index in ground.environment.items()]
        yield from dict.fromkeys(
            name for name in names if isinstance(name, str) and name != hearer.node)

    def _processes(self, node: str, instances: Sequence[Instance]) -> list[Process]:
        """The process of the node in which the life runs. If there is none: all of the node."""
        files = self.replay.files
        own = [files[one.key[0]].processes[one.key[1]] for one in instances if one.node == node]
        return own[:1] or [one for file in self._given.get(node, ()) for one in file.processes]

    # One hand-over

    def _members(
        self, instances: list[Instance]
    ) -> tuple[tuple[object, ...], list[Member], Whole, int]:
        """The endpoints for the search, with a key of all on which its result depends."""
        names = self._names(instances)
        sizes = {sort: len(names.get(sort, ())) for sort in self.system.sorts}
        given = self._rigid(names, instances, sizes)
        of = (*((sort, size) for sort, size in sizes.items()), *given.items())
        whole = self._wholes.get(of)
        if whole is None:
            whole = self._wholes[of] = Whole(self.system, sizes, given)
        members, known = [], 0
        key: list[object] = [of]
        for instance in instances:
            images = self._images(instance, names)
            shape = tuple(images.items())
            own = tuple(images[sort][0][0] for sort in instance.local.own)
            mask = whole.owned(instance.local.table.machine, own)
            file = self.replay.files[instance.key[0]]
            complete = file.processes[instance.key[1]].whole
            members.append(Member(instance.events, images, shape, mask, complete))
            known |= mask
            key.append((instance.key[0], own, shape, complete, *map(_token, instance.events)))
        unknown = self._unknown(whole, names, known)
        return (*key, unknown), members, whole, unknown

    def _names(self, instances: Sequence[Instance]) -> Names:
        """The elements of each sort: names and lives as they are, others by their numbers."""
        names: dict[type[Sort], list[Element]] = {}
        for instance in instances:
            for sort, of in instance.names.items():
                known = names.setdefault(sort, [])
                known += [one for one in of if one is not None and one not in known]
                if sort in instance.local.own and None in of:
                    known.append(None)
        return {sort: sorted(of, key=str) if all(isinstance(one, str) for one in of) else of
                for sort, of in names.items()}

    @staticmethod
    def _images(instance: Instance, names: Names) -> Images:
        images: dict[type[Sort], tuple[tuple[int, ...], ...]] = {}
        for sort, of in instance.names.items():
            known = names[sort]
            if of == tuple(range(len(of))):  # numbers: the last one stands for all after it
                last = len(of) - 1
                images[sort] = tuple(
                    (index,) if index < last else tuple(range(last, len(known)))
                    for index in range(len(of)))
            else:
                images[sort] = tuple(
                    (known.index(one),) if one in known else () for one in of)
        return images

    def _rigid(
        self, names: Names, instances: Sequence[Instance], sizes: Mapping[type[Sort], int]
    ) -> dict[AnyRigid, frozenset[Indices]]:
        """Each relation of the topology holds where endpoints name each other."""
        strangers = set()
        for instance in instances:
            own = dict(zip(instance.local.own, instance.own, strict=True))
            for sort, known in names.items():
                if sort in own:
                    continue
                for other in known:
                    if isinstance(other, str) and other not in instance.names.get(sort, ()):
                        strangers |= {frozenset((other, one)) for one in own.values()
                                      if isinstance(one, str)}
        friends = {frozenset((other, one)) for instance in instances
                   for of in instance.names.values() for other in of if isinstance(other, str)
                   for one in instance.own if isinstance(one, str)}
        given = {}
        for rigid in self.system.rigids:
            given[rigid] = frozenset(
                at for at in index_tuples(rigid, sizes)
                if not self._apart(rigid, at, names, strangers - friends))
        return given

    @staticmethod
    def _apart(
        rigid: AnyRigid, at: Indices, names: Names, strangers: set[frozenset[str]]
    ) -> bool:
        elements = [names[sort][index] for sort, index in zip(rigid.sorts, at, strict=True)]
        nodes = [one for one in elements if isinstance(one, str)]
        return any(frozenset((one, two)) in strangers
                   for place, one in enumerate(nodes) for two in nodes[:place])

    def _unknown(self, whole: Whole, names: Names, known: int) -> int:
        """The bits of instances of which no given trace tells."""
        unknown = 0
        for table in self.system.tables:
            for own in index_tuples_of(table, whole):
                mask = whole.owned(table.machine, own)
                elements = [names[sort][index]
                            for sort, index in zip(table.machine.sorts, own, strict=True)]
                if mask & known or self._tells(elements):
                    continue
                unknown |= mask
        return unknown

    def _tells(self, elements: Sequence[Element]) -> bool:
        """Whether the whole trace of the node is given: an instance without a line has not begun.
        """
        nodes = [self._given.get(one, []) for one in elements if isinstance(one, str)]
        return bool(nodes) and all(files and all(
            file.whole and not any(one.passed for one in file.processes)
            for file in files) for files in nodes)


def index_tuples_of(table: Table, whole: Whole) -> Iterator[Indices]:
    """The own elements of every instance of a machine."""
    for environment in whole.grounder.environments(table.machine.own):
        yield tuple(environment.values())


def _token(event: Event) -> tuple[object, ...]:
    """What a search reads of an event."""
    local: LocalTable = event.local
    return id(local), event.after, id(event.ground), id(event.devices), event.message, event.assumed


def _placed(instances: Sequence[Instance], order: Sequence[int]) -> list[tuple[Instance, Event]]:
    """The events in this order of the members."""
    places = [0] * len(instances)
    placed = []
    for number in order:
        placed.append((instances[number], instances[number].events[places[number]]))
        places[number] += 1
    return placed
