"""The alternating bit protocol: items arrive in order, each once, although packets are lost.

After Bartlett, Scantlebury and Wilkinson, "A note on reliable full-duplex transmission over
half-duplex links" (Communications of the ACM 12(5), 1969).

Rule 1: The sender repeats an item, with one bit, until an acknowledgement with the same bit comes.
Rule 2: The receiver takes a packet that has the bit it expects, and then expects the other bit. It
repeats the bit of the packet that it took last.
Rule 3: A link loses packets, and never changes their order: it is an ordered channel.

Of two items, only the bits are compared: `odd(i)` is the bit of item i.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    Tuples,
    all_of,
    any_of,
    auto,
    forall,
    implies,
    lose,
)


class Item(Sort, ordered=True):
    """A piece of the data, in the order in which the sender has them."""


class Place(Sort, ordered=True):
    """A place on a link. A link that has them all taken blocks its sender."""


class Bit(State):
    EVEN = auto()
    ODD = auto()


def begins(sizes: Sizes) -> Tuples:
    """Item 0 is the first."""
    return {(0,)} if sizes[Item] else set()


def follows(sizes: Sizes) -> Tuples:
    """Item k + 1 is next after item k."""
    return {(item, item + 1) for item in range(sizes[Item] - 1)}


def every_other(sizes: Sizes) -> Tuples:
    """Items 1, 3, 5, ... are odd."""
    return {(item,) for item in range(1, sizes[Item], 2)}


i, j, k = Item("i"), Item("j"), Item("k")
s, t = Place("s"), Place("t")

first = Rigid("first", i, given=begins)
next = Rigid("next", i, j, given=follows)  # noqa: A001 - the usual name for it
odd = Rigid("odd", i, given=every_other)
same_bit = any_of(all_of(odd(i), odd(j)), all_of(~odd(i), ~odd(j)))


class AlternatingBit:
    """The tables, and what they promise. places: of a link; None if it changes the order."""

    def __init__(self, places: type[Sort] | None) -> None:
        self.sizes: dict[type[Sort], int] = {Item: 3}
        if places is not None:
            self.sizes[places] = 3
        self.sender = sender = Machine("sender")
        self.receiver = receiver = Machine("receiver")
        self.link = Machine("link", world=True)
        self.current = sender.function("current", Item)
        self.expects = receiver.function("expects", Bit)
        self.delivered = receiver.relation("delivered", Item)
        self.newest = receiver.function("newest", Item)
        self.data = Message("data", i, sender=sender, receiver=receiver, fifo=places)
        self.ack = Message("ack", i, sender=receiver, receiver=sender, fifo=places)
        self.advances = all_of(self.current() == j, same_bit, next(j, k))

    def sending(self) -> Table:
        """The table of the sender."""
        current, data, ack = self.current, self.data, self.ack
        return Table(self.sender, rows=(
            Row("begin", on=Call("begin"), choose=i, when=[current().unset, first(i)],
                do=current().to(i)),
            Row("send", on=Timer("no_ack"), choose=i, when=current() == i, send=data(i),
                why="a packet may have been lost"),
            Row("advance", on=ack(i), choose=(j, k), when=self.advances, do=current().to(k),
                why="the receiver has the current item"),
            Ignore(ack(i), when=forall((j, k), ~self.advances),
                   why="it acknowledges an earlier item, or the last of all"),
        ))

    def receiving(self) -> Table:
        """The table of the receiver."""
        data, take = self.data, [self.newest().to(i), self.delivered(i).to(True)]
        return Table(self.receiver, state=self.expects, rows=(
            Row("take_even", on=data(i), at=Bit.EVEN, to=Bit.ODD, when=~odd(i), do=take),
            Row("take_odd", on=data(i), at=Bit.ODD, to=Bit.EVEN, when=odd(i), do=take),
            Ignore(data(i), at=Bit.ODD, when=~odd(i), why="it was taken before"),
            Ignore(data(i), at=Bit.EVEN, when=odd(i), why="it was taken before"),
            Row("acknowledge", on=Timer("no_data"), choose=i, when=self.newest() == i,
                send=self.ack(i), why="an acknowledgement may have been lost"),
        ))

    def system(self, name: str, about: str) -> System:
        """The system, at small sizes."""
        delivered = self.delivered
        losing = Table(self.link, rows=(lose(self.data), lose(self.ack)))
        return System(
            name, about, tables=(self.sending(), self.receiving()), faults={"loss": (losing,)},
            properties=(
                Always("items_arrive_in_order",
                       implies(all_of(delivered(j), i.before(j)), delivered(i)),
                       why="no item arrives before an earlier one"),
                OnRow("even_items_arrive_once", "take_even", ~delivered(i),
                      why="no item arrives twice"),
                OnRow("odd_items_arrive_once", "take_odd", ~delivered(i),
                      why="no item arrives twice"),
                Sometimes("every_item_arrives", forall(i, delivered(i))),
                LeadsTo("every_item_arrives_in_the_end", self.current() == i,
                        forall(j, delivered(j)), under=Fairness.TIMERS),
            ),
            final=forall(i, delivered(i)),
            axioms={
                "the_first_is_even": forall(i, implies(first(i), ~odd(i))),
                "nothing_is_before_the_first": forall((i, j), implies(first(i), ~j.before(i))),
                "the_next_is_later": forall((i, j), implies(next(i, j), i.before(j))),
                "nothing_is_between": forall(
                    (i, j, k), implies(next(i, j), ~all_of(i.before(k), k.before(j)))),
                "bits_alternate": forall((i, j), implies(next(i, j), ~same_bit)),
            },
            configurations={"default": Configuration(self.sizes, faults=("loss",))},
        )


PROTOCOL: Final = AlternatingBit(Place)
SYSTEM: Final = PROTOCOL.system(
    "alternating-bit",
    "The alternating bit protocol: items arrive in order, each once, although packets are lost.")
