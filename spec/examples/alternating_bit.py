"""The alternating bit protocol: items arrive in order, each once, although packets are lost.

After Bartlett, Scantlebury and Wilkinson, "A note on reliable full-duplex transmission over
half-duplex links" (Communications of the ACM 12(5), 1969).

Rule 1: The sender repeats an item, with one bit, until an acknowledgement with the same bit comes.
Rule 2: The receiver takes a packet that has the bit it expects, and then expects the other bit. It
repeats the bit of the packet that it took last.
Rule 3: A link loses and repeats packets, and never changes their order.

A turn is the place of a packet on its link. A packet that is never delivered is lost, and one that
is delivered twice has been repeated; a packet that a later one has overtaken does not arrive.

Of two items, only the bits are compared: `odd(i)` is the bit of item i.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
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
)


class Item(Sort, ordered=True):
    """A piece of the data, in the order in which the sender has them."""


class Turn(Sort, ordered=True):
    """The place of a packet on its link: first, second, ..."""


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
n, m = Turn("n"), Turn("m")

first = Rigid("first", i, given=begins)
next = Rigid("next", i, j, given=follows)  # noqa: A001 - the usual name for it
odd = Rigid("odd", i, given=every_other)
same_bit = any_of(all_of(odd(i), odd(j)), all_of(~odd(i), ~odd(j)))

sender = Machine("sender")
receiver = Machine("receiver")

current = sender.function("current", Item)
used = sender.relation("used", Turn)
heard = sender.function("heard", Turn)  # the turn of the last acknowledgement
expects = receiver.function("expects", Bit)
delivered = receiver.relation("delivered", Item)
newest = receiver.function("newest", Item)
arrived = receiver.function("arrived", Turn)  # the turn of the last packet
answered = receiver.relation("answered", Turn)

data = Message("data", n, i, sender=sender, receiver=receiver)
ack = Message("ack", n, i, sender=receiver, receiver=sender)

advances = all_of(current() == j, same_bit, next(j, k))

SENDER: Final = Table(sender, rows=(
    Row("begin", on=Call("begin"), choose=(i,), when=[current().unset, first(i)],
        do=[current().to(i)]),
    Row("send", on=Timer("no_ack"), choose=(n, i),
        when=[current() == i, ~used(n), forall(m, implies(m.before(n), used(m)))],
        do=[used(n).to(True)], send=[data(n, i)],
        why="a packet may have been lost"),
    Row("advance", on=ack(n, i), choose=(j, k), when=[~heard().after(n), advances],
        do=[heard().to(n), current().to(k)],
        why="the receiver has the current item"),
    Row("hear_again", on=ack(n, i),
        when=[~heard().after(n), forall((j, k), ~advances)],
        do=[heard().to(n)],
        why="it acknowledges an earlier item, or the last of all"),
    Ignore(ack(n, i), when=heard().after(n), why="a later packet has overtaken it"),
))

RECEIVER: Final = Table(receiver, state=expects, rows=(
    Row("take_even", on=data(n, i), at=Bit.EVEN, to=Bit.ODD,
        when=[~arrived().after(n), ~odd(i)],
        do=[arrived().to(n), newest().to(i), delivered(i).to(True)]),
    Row("take_odd", on=data(n, i), at=Bit.ODD, to=Bit.EVEN,
        when=[~arrived().after(n), odd(i)],
        do=[arrived().to(n), newest().to(i), delivered(i).to(True)]),
    Row("see_even_again", on=data(n, i), at=Bit.ODD, when=[~arrived().after(n), ~odd(i)],
        do=[arrived().to(n)], why="the sender has not heard that it was taken"),
    Row("see_odd_again", on=data(n, i), at=Bit.EVEN, when=[~arrived().after(n), odd(i)],
        do=[arrived().to(n)], why="the sender has not heard that it was taken"),
    Ignore(data(n, i), when=arrived().after(n), why="a later packet has overtaken it"),
    Row("acknowledge", on=Timer("no_data"), choose=(n, i),
        when=[newest() == i, ~answered(n), forall(m, implies(m.before(n), answered(m)))],
        do=[answered(n).to(True)], send=[ack(n, i)],
        why="an acknowledgement may have been lost"),
))

PROPERTIES: Final = (
    Always("items_arrive_in_order", implies(all_of(delivered(j), i.before(j)), delivered(i)),
           why="no item arrives before an earlier one"),
    OnRow("even_items_arrive_once", "take_even", ~delivered(i), why="no item arrives twice"),
    OnRow("odd_items_arrive_once", "take_odd", ~delivered(i), why="no item arrives twice"),
    Sometimes("every_item_arrives", forall(i, delivered(i))),
)

SYSTEM: Final = System(
    "alternating-bit",
    "The alternating bit protocol: items arrive in order, each once, although packets are lost.",
    tables=(SENDER, RECEIVER),
    properties=PROPERTIES,
    final=forall(n, used(n)),
    axioms={
        "the_first_is_even": forall(i, implies(first(i), ~odd(i))),
        "nothing_is_before_the_first": forall((i, j), implies(first(i), ~j.before(i))),
        "the_next_is_later": forall((i, j), implies(next(i, j), i.before(j))),
        "nothing_is_between": forall(
            (i, j, k), implies(next(i, j), ~all_of(i.before(k), k.before(j)))),
        "bits_alternate": forall((i, j), implies(next(i, j), ~same_bit)),
    },
    configurations={"default": Configuration({Item: 3, Turn: 4})},
)
