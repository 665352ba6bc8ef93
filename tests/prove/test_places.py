"""A proof reads other rows where a channel is used: they follow each step of the tables, and a
claim that a proof can be about holds in the tables where it holds by these rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdproto.check.interpret import Interpreter, Store
from pdproto.check.prove import cutoff, quantified
from pdproto.check.prove.in_channels import Decide
from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.prove.places import ProofRows, moved_up
from pdproto.spec.language import (
    Always,
    Call,
    Formula,
    Ignore,
    Machine,
    Message,
    Row,
    Sizes,
    Sort,
    System,
    Table,
    all_of,
    each,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.channels import uses_channel
from pdproto.spec.language.formula import free_variables
from tests.check import systems as random
from tests.judging import judged, judges
from tests.tiers import examples

ROOM = 5  # the places of a channel in a proof, where it has two in the tables
BOTH = pytest.mark.parametrize(
    "decide", [cutoff.decide, quantified.decide], ids=["cutoff", "quantified"])
SEARCHES = settings(deadline=None, suppress_health_check=list(HealthCheck))


def by_places(system: System, sizes: Sizes) -> Interpreter:
    """The oracle, with the rows that a proof reads."""
    places = ProofRows(system)
    oracle = Interpreter(system, {**sizes, random.Place: ROOM}, tuple(system.faults))
    oracle.tables = tuple(
        (replace(table, rows=tuple(places.placed(table, row) for row in table.rows)), layer)
        for table, layer in oracle.tables)
    return oracle


def spread(store: Store, chance: Random) -> Store:
    """The state with gaps between the messages of each channel, and room for two behind them."""
    at: dict[object, list[int]] = {}

    def moved(symbol: Any, indices: tuple[int, ...]) -> tuple[int, ...]:
        if not isinstance(symbol, Message) or symbol.fifo is None:
            return indices
        # Each channel of a random system is of one node, which is the first argument.
        places = at.setdefault((symbol.sender.machine, indices[0]),
                               sorted(chance.sample(range(ROOM - 2), 2)))
        return (*indices[:-1], places[indices[-1]])

    return frozenset(((symbol, moved(symbol, indices)), value)
                     for (symbol, indices), value in store)


def walked(system: System, chance: Random, steps: int = 20) -> Iterator[Store]:
    """The states of a random walk, which prefers rows that use a channel."""
    using = {row.name for _, row in system.rows() if uses_channel(row)}
    tables = Interpreter(system, random.SMALLER, tuple(system.faults))
    store: Store = frozenset()
    for _ in range(steps):
        yield store
        after = list(tables.steps(store))
        preferred = [one for one in after if one[0][0] in using and one[1] != store]
        choice = preferred if preferred and chance.random() < 0.7 else after
        if not choice:
            return
        store = chance.choice(choice)[1]


@settings(SEARCHES, max_examples=examples(8, 15))
@given(random.systems(channels=True), st.randoms(use_true_random=False))
def test_the_rows_of_a_proof_follow_every_step_of_the_tables(
    system: System, chance: Random
) -> None:
    """From the same content of all channels, the same row leads to the same content."""
    tables = Interpreter(system, random.SMALLER, tuple(system.faults))
    proof = by_places(system, random.SMALLER)
    rows = {row.name: (table, row) for table, row in system.rows()}
    placed = {row.name: (table, row) for table, _ in proof.tables for row in table.rows}

    def told(among: Any, name: str, indices: tuple[int, ...]) -> dict[Any, int]:
        table, row = among[name]
        return dict(zip(table.parameters(row), indices, strict=True))

    for store in walked(system, chance, 8):
        reached: dict[str, list[tuple[dict[Any, int], Any]]] = {}
        for (name, indices), after in proof.steps(spread(store, chance)):
            reached.setdefault(name, []).append(
                (told(placed, name, indices), moved_up(dict(after))))
        for (name, indices), after in tables.steps(store):
            chosen, expected = told(rows, name, indices), moved_up(dict(after))
            assert any(state == expected and chosen.items() <= more.items()
                       for more, state in reached.get(name, [])), name


@judges(examples(0, 1))
@settings(SEARCHES, max_examples=examples(10, 60))
@given(random.systems(channels=True), st.randoms(use_true_random=False))
def test_what_is_proved_holds_in_every_run(system: System, chance: Random) -> None:
    """A tenth is proved: by day perhaps none, so tests/oracle/test_proved.py has some by day."""
    owed = obligations(system, claims(system), wanted=("always",))
    for group in by_row(owed):
        if any(one.status is not Status.PROVED for one in cutoff.decide(system, group, 10.0)):
            return
    claim = system.properties[0]
    assert isinstance(claim, Always)
    oracle = Interpreter(system, random.SMALLER)
    for _ in range(5):
        for store in walked(system, chance):
            assert holds(oracle, claim.claim, store)
    judged()


def by_row(owed: Iterable[Obligation]) -> Iterable[list[Obligation]]:
    groups: dict[str, list[Obligation]] = {}
    for one in owed:
        groups.setdefault(one.scope, []).append(one)
    return groups.values()


@judges(15)
@settings(SEARCHES, max_examples=examples(100, 300))
@given(st.data(), st.randoms(use_true_random=False))
def test_a_claim_that_holds_in_a_proof_holds_in_the_tables(
    data: st.DataObject, chance: Random
) -> None:
    parts = random.Parts(channels=True)
    claim = data.draw(random.place_claims(parts))
    system = System("one", "One.", (Table(parts.node), Table(parts.hub)))
    places = ProofRows(system)
    if places.obstacle(claim) is not None:
        return
    letters: dict[int, list[Any]] = {0: [parts.put, parts.end], 1: [parts.give]}
    sizes = {**random.SIZES, random.Item: 1}
    tables, proof = Interpreter(system, sizes), Interpreter(system, {**sizes, random.Place: ROOM})
    for _ in range(5):
        waiting = []
        for queue in range(4):
            for place in range(chance.randint(0, 2)):
                message = chance.choice(letters[queue % 2])
                item = (0,) if message is parts.put else ()
                waiting.append(((message, (queue // 2, *item, place)), True))
        store = frozenset(waiting)
        if holds(proof, places.claimed(claim), spread(store, chance)):
            assert holds(tables, claim, store), claim
            judged()


def holds(oracle: Interpreter, claim: Formula, store: Store) -> bool:
    return all(oracle.holds(claim, dict(store), environment)
               for environment in oracle.environments(free_variables(claim)))


class Node(Sort):
    """A process."""


class Item(Sort):
    """Content of a message."""


class Place(Sort, ordered=True):
    """A place in a channel."""


class Telling:
    """Nodes tell each other items, and then that there are no more."""

    def __init__(self) -> None:
        p, q, i = self.p, self.q, self.i = Node("p"), Node("q"), Item("i")
        self.r = Node("r")
        self.s, self.t = Place("s"), Place("t")
        self.node = node = Machine("node", p)
        self.ended = node.relation("ended", Node)  # this node has told that one the end
        self.knows = node.relation("knows", Node)  # it has heard the end from that one
        self.data = Message("data", p, q, i, sender=node, receiver=node.at(q), fifo=Place)
        self.end = Message("end", p, q, sender=node, receiver=node.at(q), fifo=Place)

    def system(self, *properties: Always) -> System:
        p, q, i, r = self.p, self.q, self.i, self.r
        return System("telling", "Nodes tell each other items.", tables=(Table(self.node, rows=(
            Row("tell", on=Call("tell", i), choose=q, when=~self.ended(p, q),
                send=self.data(p, q, i)),
            Row("close", on=Call("close"), when=forall(r, ~self.ended(p, r)),
                do=each(r, self.ended(p, r).to(True)), send=each(r, self.end(p, r))),
            Row("finish", on=Call("finish", i), choose=q, when=~self.ended(p, q),
                do=self.ended(p, q).to(True), send=[self.data(p, q, i), self.end(p, q)]),
            Row("hear", on=self.end(q, p), do=self.knows(p, q).to(True)),
            Ignore(self.data(q, p, i), why="nobody looks at the items"),
        )),), properties=properties)


ONE = Telling()
AT_THE_END = Always("nothing_is_behind_the_end", ~all_of(
    ONE.end(ONE.p, ONE.q).at(ONE.s), ONE.data(ONE.p, ONE.q, ONE.i).at(ONE.t),
    ONE.s.before(ONE.t)))
LEMMAS = (
    Always("an_end_was_told", implies(ONE.end(ONE.p, ONE.q).at(ONE.s), ONE.ended(ONE.p, ONE.q))),
    Always("who_knows_was_told", implies(ONE.knows(ONE.p, ONE.q), ONE.ended(ONE.q, ONE.p))),
    Always("who_knows_misses_nothing",
           implies(ONE.knows(ONE.p, ONE.q), ~ONE.data(ONE.q, ONE.p, ONE.i).at(ONE.s))),
)


def verdicts(system: System, decide: Decide, lemmas: tuple[Always, ...]) -> dict[str, Status]:
    """The worst verdict on each claim."""
    found: dict[str, set[Status]] = {}
    for group in by_row(obligations(system, claims(system, lemmas))):
        for one, judgement in zip(group, decide(system, group, 10.0), strict=True):
            found.setdefault(one.claim.name, set()).add(judgement.status)
    return {name: next((s for s in all_ if s is not Status.PROVED), Status.PROVED)
            for name, all_ in found.items()}


@BOTH
def test_order_in_a_channel_is_proved(decide: Decide) -> None:
    system = ONE.system(AT_THE_END)
    assert set(verdicts(system, decide, LEMMAS).values()) == {Status.PROVED}


@BOTH
def test_the_order_of_two_senders_is_not(decide: Decide) -> None:
    """Who has heard the end from one node may still get items from another one."""
    r = ONE.r
    wrong = Always("wrong", implies(ONE.knows(ONE.p, ONE.q), ~ONE.data(r, ONE.p, ONE.i).queued))
    system = ONE.system(AT_THE_END, wrong)
    assert verdicts(system, decide, LEMMAS)["wrong"] is Status.FAILED


def test_a_counterexample_is_a_step_of_the_tables() -> None:
    """Without the lemma an end may wait that was never told, and an item is sent behind it."""
    system = ONE.system(AT_THE_END)
    (broken,) = [one for one in obligations(system, claims(system))
                 if one.name == "nothing_is_behind_the_end at tell"]
    found = counterexample(system, broken, 10)
    assert found is not None
    (step,) = found.trace.steps
    assert (step.row, [arrow.message for arrow in step.sent]) == ("tell", ["data(n0, n0, i0)"])
    (change,) = step.changes
    assert (change.before, change.after) == ("end", "end, data(i0)")


def test_a_row_that_sends_into_a_channel_by_itself_always_moves() -> None:
    """It is blocked in the end, and so it is not busy, as the explorer says."""
    node, p, q = Machine("node", ONE.p), ONE.p, ONE.q
    ping = Message("ping", p, q, sender=node, receiver=node.at(q), fifo=Place)
    system = System("pings", "Nodes ping each other.", (Table(node, rows=(
        Row("ping", choose=q, send=ping(p, q)), Ignore(ping(q, p), why="it is a sign of life"))),))
    assert verdicts(system, cutoff.decide, ())["no_row_is_busy"] is Status.PROVED


@pytest.mark.parametrize(("claim", "said"), [
    (exists(ONE.s, forall(ONE.t, ~ONE.t.before(ONE.s))), "does not say which message waits at"),
    (implies(ONE.end(ONE.p, ONE.q).at(ONE.s), exists(ONE.t, ONE.s.before(ONE.t))),
     "`for some t` does not say"),
    (~all_of(ONE.end(ONE.p, ONE.q).at(ONE.s), ONE.end(ONE.q, ONE.p).at(ONE.t),
             ONE.s.before(ONE.t)), "places of two channels"),
    (~all_of(ONE.end(ONE.p, ONE.q).at(ONE.s), ONE.end(ONE.q, ONE.p).at(ONE.s)),
     "places of two channels"),
    (exists(ONE.s, exists(ONE.p, ONE.end(ONE.p, ONE.q).at(ONE.s))),
     "write the quantifier of Node first"),
])
@BOTH
def test_a_claim_about_the_number_of_places_is_refused(
    claim: Formula, said: str, decide: Decide
) -> None:
    system = ONE.system(Always("claim", claim))
    asked = obligations(system, claims(system), wanted=("claim",))
    for judgement in decide(system, asked, 5.0):
        assert judgement.status is Status.REFUSED
        assert said in judgement.note
        assert "--bmc K" in judgement.note


@pytest.mark.parametrize("claim", [
    ONE.end(ONE.p, ONE.q).queued, ~ONE.end(ONE.p, ONE.q).queued, ONE.end(ONE.p, ONE.q).arrived,
    ~ONE.end(ONE.p, ONE.q).arrived, exists(ONE.p, ONE.end(ONE.p, ONE.q).queued),
    forall((ONE.s, ONE.t), ~all_of(ONE.end(ONE.p, ONE.q).at(ONE.s), ONE.s.before(ONE.t),
                                   ONE.data(ONE.p, ONE.q, ONE.i).at(ONE.t))),
    exists(ONE.s, ONE.end(ONE.p, ONE.q).at(ONE.s) | ONE.data(ONE.p, ONE.q, ONE.i).at(ONE.s)),
])
def test_other_claims_are_not(claim: Formula) -> None:
    assert ProofRows(ONE.system()).obstacle(claim) is None


def test_a_sort_of_places_that_variables_use_too_allows_no_claim_about_places() -> None:
    node, p, q, s = Machine("node", ONE.p), ONE.p, ONE.q, ONE.s
    ping = Message("ping", p, q, sender=node, receiver=node.at(q), fifo=Place)
    marked = node.relation("marked", Place)
    system = System("marks", "Nodes mark places.", (Table(node, rows=(
        Row("mark", on=Call("mark", s), do=marked(p, s).to(True)),
        Row("ping", on=Call("ping", q), send=ping(p, q)),
        Ignore(ping(q, p), why="it is a sign of life"))),))
    places = ProofRows(system)
    assert "give it a sort of its own instead of Place" in str(places.obstacle(~marked(p, s)))
    assert "marked" in str(places.obstacle(ping(p, q).queued))


def test_a_condition_that_may_fail_in_a_proof_alone_is_left_out() -> None:
    """No message is at the first place of a proof's channel when the first of two is gone."""
    world = Machine("world", world=True)
    p, q, s, t = ONE.p, ONE.q, ONE.s, ONE.t
    waits, is_first = ONE.end(p, q).at(s), forall(t, ~t.before(s))
    rows = tuple(Row(name, on=ONE.end(p, q), choose=s, when=when)
                 for name, when in (("lose_some", waits), ("lose_first", [waits, is_first])))
    lossy = replace(ONE.system(), faults={"loss": (Table(world, rows=rows),)})
    places = ProofRows(lossy)
    some, first = (places.placed(lossy.faults["loss"][0], row).conditions for row in rows)
    assert waits in some
    assert not {waits, is_first} & {*first}
