"""Models with numbers, each with the counts that TLC finds for its export."""

import sys
from dataclasses import dataclass, field

from pdproto.check.opinions.tlc import ask
from pdproto.ground.grounding import Ground
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Configuration,
    Int,
    Machine,
    Message,
    Row,
    Sizes,
    Sometimes,
    Sort,
    System,
    Table,
    count,
    exists,
    forall,
    implies,
    max_of,
    min_of,
    size,
    sum_of,
)


@dataclass(frozen=True)
class Model:
    """states, transitions: those of TLC. violated: the claims that do not hold."""

    system: System
    sizes: Sizes
    states: int
    transitions: int
    violated: set[str] = field(default_factory=set)

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.sizes)


class Node(Sort):
    """A process."""


n, m, k = Node("n"), Node("m"), Node("k")


def _rounds() -> System:
    """Processes count rounds; nobody is two rounds ahead."""
    node = Machine("node", n)
    world = Machine("world", world=True)
    turn = node.function("turn", Int(0, 4))
    return System("rounds", "Rounds.", (
        Table(world, rows=(
            Row("step", choose=n, when=[turn(n) < 4, turn(n) == min_of(m, turn(m))],
                do=turn(n).to(turn(n) + 1)),)),
        Table(node, rows=(Row("stop", on=Call("stop"), when=turn(n) == 4),)),
    ), (
        Always("together", max_of(n, turn(n)) - min_of(n, turn(n)) <= 1),
        Always("bounded", sum_of(n, turn(n)) <= 4 * size(Node)),
        Sometimes("all_arrive", forall(n, turn(n) == 4)),
    ), final=forall(n, turn(n) == 4))


def _votes() -> System:
    """A leader counts votes; a vote may be withdrawn, so two may lead."""
    node, desk = Machine("node", n), Machine("desk")
    vote = Message("vote", n, m, sender=node, receiver=desk)
    voted = node.relation("voted", Node)
    leads = desk.relation("leads", Node)
    most = count(n, vote(n, m)) * 2 > size(Node)
    return System("votes", "Votes.", (
        Table(node, rows=(
            Row("cast", on=Call("cast", m), when=count(k, voted(n, k)) < 1,
                do=voted(n, m).to(True), send=vote(n, m)),
            Row("withdraw", on=Call("withdraw"), do=voted(n, ANY).to(False)),)),
        Table(desk, rows=(Row("lead", choose=m, when=[most, ~leads(m)], do=leads(m).to(True)),)),
    ), (
        Always("one_leads", implies(leads(n) & leads(m), n.same(m))),
        Always("few_votes", implies(exists(m, leads(m)), count((n, m), vote(n, m)) >= 2)),
    ))


def _buckets() -> System:
    """The die-hard puzzle: buckets of 5 and of 3, and 4 to measure."""
    hands = Machine("hands")
    big, small = hands.function("big", Int(0, 5)), hands.function("small", Int(0, 3))
    room_big, room_small = 5 - big(), 3 - small()
    return System("buckets", "Buckets.", (Table(hands, rows=(
        Row("fill_big", on=Call("fill_big"), do=big().to(5)),
        Row("fill_small", on=Call("fill_small"), do=small().to(3)),
        Row("empty_big", on=Call("empty_big"), do=big().to(0)),
        Row("empty_small", on=Call("empty_small"), do=small().to(0)),
        Row("all_into_big", on=Call("into_big"), when=small() <= room_big,
            do=[big().to(big() + small()), small().to(0)]),
        Row("some_into_big", on=Call("into_big"), when=small() > room_big,
            do=[small().to(small() - room_big), big().to(5)]),
        Row("all_into_small", on=Call("into_small"), when=big() <= room_small,
            do=[small().to(small() + big()), big().to(0)]),
        Row("some_into_small", on=Call("into_small"), when=big() > room_small,
            do=[big().to(big() - room_small), small().to(3)]),
    )),), (Always("never_four", big() != 4),))


def _clocks() -> System:
    """An hour clock with minutes by fives: 12 hours, remainders."""
    clock = Machine("clock")
    hour, minute = clock.function("hour", Int(1, 12)), clock.function("minute", Int(0, 11))
    return System("clocks", "Clocks.", (Table(clock, rows=(
        Row("tick", when=minute() < 11, do=minute().to(minute() + 1)),
        Row("strike", when=minute() == 11,
            do=[minute().to(0), hour().to(hour() % 12 + 1)]),
    )),), (Always("shown", hour() * 60 + minute() * 5 <= 775), Sometimes("noon", hour() == 12)))


MODELS = {
    "rounds": Model(_rounds(), {Node: 3}, 29, 60),
    "votes": Model(_votes(), {Node: 2}, 123, 534, {"one_leads"}),
    "buckets": Model(_buckets(), {}, 16, 96, {"never_four"}),
    "clocks": Model(_clocks(), {}, 144, 144),
}


def main() -> None:
    """Print the states, the transitions and the violated claims of TLC."""
    for name, model in MODELS.items():
        told = ask(Ground(model.system, model.configuration.sizes, (), {}))
        sys.stdout.write(f"{name}: {told.states}, {told.transitions}, {told.violated}\n")


if __name__ == "__main__":
    main()
