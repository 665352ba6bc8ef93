"""The distributed snapshot: processes record a consistent global state while they go on working.

After Chandy and Lamport, "Distributed Snapshots: Determining Global States of Distributed Systems"
(ACM Transactions on Computer Systems 3(1), 1985), for processes that pay each other with tokens.

Rule 1: A process that begins records the tokens that it holds, and sends a marker to each other.
Rule 2: A process does the same when its first marker comes.
Rule 3: A token that comes after that, and before the marker from its sender, was in the channel
when the state was recorded.
Rule 4: A marker never overtakes a token, because both wait in one ordered channel.

The recorded state is perhaps none that the processes were ever in at one moment. But no token is
missing in it, and none is there twice.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Formula,
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
    Tuples,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
)


class Node(Sort):
    """A process."""


class Token(Sort):
    """A piece of money, which one process holds, or one channel."""


class Place(Sort, ordered=True):
    """A place in a channel. A channel that has them all taken blocks its sender."""


class Phase(State):
    WORKING = auto()
    RECORDED = auto()


def in_turn(sizes: Sizes) -> Tuples:
    """The tokens are dealt to the processes in turn."""
    return {(token, token % sizes[Node]) for token in range(sizes[Token])}


p, q, r = Node("p"), Node("q"), Node("r")
k = Token("k")
home = Rigid("home", k, p, given=in_turn)


class Snapshot:
    """The table, and what it promises. markers: the places of the channel of the markers."""

    def __init__(self, markers: type[Sort]) -> None:
        self.process = process = Machine("process", p)
        self.phase = process.function("phase", Phase)
        self.unspent = process.relation("unspent", Token, init=True)  # if it was dealt to it
        self.holds = process.relation("holds", Token)  # it has received it
        self.kept = process.relation("kept", Token)  # recorded at this process
        self.on_the_way = process.relation("on_the_way", Node, Token)  # in the channel from q
        self.heard = process.relation("heard", Node)  # the marker from q has come
        self.token = Message("token", p, q, k, sender=process, receiver=process.at(q), fifo=Place)
        self.marker = Message("marker", p, q, sender=process, receiver=process.at(q), fifo=markers)

    def table(self) -> Table:
        """The one table: every process does the same."""
        has = self.has(p)
        record = each(k, self.kept(p, k).to(True), where=has)
        tell = each(r, self.marker(p, r), where=p.differs(r))
        token, marker = self.token(q, p, k), self.marker(q, p)
        return Table(self.process, state=self.phase, rows=(
            Row("pay", on=Call("pay", k), choose=(q,), when=[has, p.differs(q)],
                do=[self.holds(p, k).to(False), self.unspent(p, k).to(False)],
                send=[self.token(p, q, k)]),
            Row("begin", on=Call("snapshot"), at=Phase.WORKING, to=Phase.RECORDED,
                do=[record], send=[tell]),
            Row("take_first_marker", on=marker, at=Phase.WORKING, to=Phase.RECORDED,
                do=[record, self.heard(p, q).to(True)], send=[tell]),
            Row("take_marker", on=marker, at=Phase.RECORDED, do=[self.heard(p, q).to(True)]),
            Row("receive", on=token, at=Phase.WORKING, do=[self.holds(p, k).to(True)]),
            Row("receive_on_the_way", on=token, at=Phase.RECORDED, when=~self.heard(p, q),
                do=[self.holds(p, k).to(True), self.on_the_way(p, q, k).to(True)],
                why="it was sent before its sender recorded, and comes after we did"),
            Row("receive_later", on=token, at=Phase.RECORDED, when=self.heard(p, q),
                do=[self.holds(p, k).to(True)], why="it was sent after its sender recorded"),
        ))

    def has(self, r: Node) -> Formula:
        """The process has token k: it has received it, or it was dealt to it and is not spent."""
        return self.holds(r, k) | all_of(home(k, r), self.unspent(r, k))

    def complete(self) -> Formula:
        """Every process has recorded its own state, and that of each channel to it."""
        return forall((p, q), all_of(
            self.phase(p) == Phase.RECORDED, p.same(q) | self.heard(p, q)))

    def system(self, name: str, about: str) -> System:
        """The system, at small sizes."""
        kept, on_the_way = self.kept, self.on_the_way
        recorded = any_of(exists(p, kept(p, k)), exists((p, q), on_the_way(p, q, k)))
        return System(
            name, about, tables=(self.table(),),
            properties=(
                Always("no_token_is_missing", implies(self.complete(), recorded)),
                Always("no_process_has_a_token_twice",
                       implies(all_of(kept(p, k), kept(q, k)), p.same(q))),
                Always("no_token_is_here_and_on_the_way", ~all_of(kept(r, k), on_the_way(p, q, k))),
                OnRow("a_token_is_on_the_way_once", "receive_on_the_way",
                      forall((q, r), ~on_the_way(q, r, k))),
                Sometimes("a_snapshot_is_complete", all_of(self.complete(), kept(p, k))),
                Sometimes("a_token_was_on_the_way",
                          all_of(self.complete(), on_the_way(p, q, k))),
            ),
            axioms={
                "a_token_has_one_home": implies(all_of(home(k, p), home(k, q)), p.same(q)),
                "every_token_has_a_home": forall(k, exists(p, home(k, p))),
            },
            configurations={
                "default": Configuration({Node: 2, Token: 2, Place: 2}),
                "three": Configuration({Node: 3, Token: 1, Place: 2}),
            },
        )


PROTOCOL: Final = Snapshot(Place)
SYSTEM: Final = PROTOCOL.system(
    "snapshot", "A distributed snapshot over ordered channels: no token is missing in it.")
