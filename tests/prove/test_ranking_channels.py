"""Rankings in systems with ordered channels: proved where no number of places decides, else
refused with the reason.
"""

from dataclasses import replace

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import Proof, ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.result import Verdict
from pdproto.spec.examples import alternating_bit
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    LeadsTo,
    Machine,
    Message,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    all_of,
    auto,
    exists,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Witness


class Value(Sort):
    """What is sent."""


class Place(Sort, ordered=True):
    """A place in the channel."""


class Reading(State):
    OPEN = auto()
    CLOSED = auto()


v, u = Value("v"), Value("u")
s, t, front = Place("s"), Place("t"), Place("taken_at")

writer, reader = Machine("writer"), Machine("reader")
sent = writer.relation("sent", Value)
reading = reader.function("reading", Reading)
got = reader.relation("got", Value)
item = Message("item", v, sender=writer, receiver=reader, fifo=Place)

WRITE = Row("write", on=Call("write", v), when=~sent(v), do=sent(v).to(True), send=item(v))
READ = Row("read", on=item(v), at=Reading.OPEN, do=got(v).to(True))
CLOSE = Row("close", on=Call("close"), at=Reading.OPEN, to=Reading.CLOSED)
ARRIVES = LeadsTo("what_is_sent_arrives", item(v).queued, got(v))
LEMMAS = (
    Always("sent_before", implies(item(v).at(s), sent(v))),
    Always("waits_once", implies(all_of(item(v).at(s), item(v).at(t)), s.same(t))),
    Always("got_was_sent", implies(got(v), sent(v))),
    Always("is_open", reading() == Reading.OPEN),
    Always("not_yet", implies(item(v).at(s), ~got(v))),
)
RANKING = Ranking(
    "what_is_sent_arrives", (Help("read", at={v: u, front: s}),),
    witnesses=(Witness(s, exists(u, item(u).at(s))), Witness(u, item(u).at(s))))


def stream(*reads: Row, arrives: LeadsTo = ARRIVES) -> System:
    return System(
        "stream", "Each value is sent once.",
        tables=(Table(writer, rows=(WRITE,)), Table(reader, state=reading, rows=reads)),
        properties=(arrives,), configurations={"default": Configuration({Value: 3, Place: 2})},
    )


def proof(
    system: System, ranking: Ranking, *monotone: Monotone, lemmas: tuple[Always, ...] = LEMMAS,
    engine: str = "cutoff",
) -> Proof:
    """The verdict on every obligation."""
    subject = ProofSubject(system, lemmas, {}, monotone=monotone, rankings=(ranking,))
    return prove(system, subject.obligations(), ProofSettings(engines=(engine,)))


def open_ones(found: Proof) -> set[str]:
    """The obligations that are not proved."""
    return {one.name for one in found.obligations if found.status(one) is not Status.PROVED}


def verdict(system: System) -> Verdict:
    """What the explorer says of the promise."""
    result = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    return next(one.verdict for one in result.findings if one.name == ARRIVES.name)


def test_what_waits_in_a_channel_arrives_at_every_size() -> None:
    system = stream(READ)
    found = proof(system, RANKING)
    assert any(one.claim.part_of == ARRIVES.name for one in found.obligations)
    assert open_ones(found) == set()
    assert verdict(system) is Verdict.HOLDS


def test_a_helper_at_the_front_may_leave_out_its_place() -> None:
    ranking = replace(RANKING, helpers=(Help("read", at={v: u}),))
    found = proof(stream(READ), ranking, engine="quantified")
    assert open_ones(found) == set()


def test_a_reader_that_closes_lets_it_wait() -> None:
    system = stream(READ, CLOSE)
    assert verdict(system) is Verdict.VIOLATED
    lemmas = tuple(lemma for lemma in LEMMAS if lemma.name != "is_open")
    assert open_ones(proof(system, RANKING, lemmas=lemmas)) == {
        "reader on item: answered at reader on item",
        "what_is_sent_arrives: helped at what_is_sent_arrives pends"}


def test_a_loss_ends_the_wait_without_the_goal() -> None:
    losing = Table(Machine("network", world=True), rows=(lose(item),))
    system = replace(stream(READ), faults={"loss": (losing,)})
    assert open_ones(proof(system, RANKING)) == {
        "what_is_sent_arrives: owed until it is paid at lose_item"}


def test_a_row_that_takes_a_message_and_does_nothing_does_not_count() -> None:
    system = stream(replace(READ, name="drop", do=()))
    ranking = replace(RANKING, helpers=(Help("drop", at={v: u, front: s}),))
    assert "what_is_sent_arrives: drop counts at drop" in open_ones(proof(system, ranking))


@pytest.mark.parametrize(("ranking", "told"), [
    (replace(RANKING, helpers=(Help("write"),)),
     "its helper 'write' sends item into a channel, so whether it can fire depends on the number "
     "of places there"),
    (replace(RANKING, pending=item(v).at(s)),
     "pending= is about one place of a channel, from which messages move up"),
    (replace(RANKING, assumed={"room": exists(s, item(v).at(s))}),
     "the assumption room is about the places of a channel"),
], ids=["a helper sends", "one place", "an assumption"])
def test_a_ranking_that_depends_on_the_number_of_places_is_refused(
    ranking: Ranking, told: str
) -> None:
    with pytest.raises(SpecError) as refused:
        proof(stream(READ), ranking)
    assert str(refused.value).endswith(
        f"what_is_sent_arrives: {told}; explore it with `pdproto check`")


def test_a_promise_about_a_full_channel_is_refused() -> None:
    full = LeadsTo(ARRIVES.name, forall(s, exists(v, item(v).at(s))), got(v))
    with pytest.raises(SpecError, match=r"what_is_sent_arrives: .*; explore it with"):
        proof(stream(READ, arrives=full), RANKING)


def test_a_predicate_of_each_place_is_refused() -> None:
    used = Monotone("used", item(v).at(s))
    with pytest.raises(SpecError, match="predicate used is about each place of a channel"):
        proof(stream(READ), RANKING, used)


def test_the_alternating_bit_is_told_which_row_it_is() -> None:
    ranking = Ranking("every_item_arrives_in_the_end", (Help("send"), Help("advance")))
    with pytest.raises(SpecError, match="its helper 'send' sends data into a channel"):
        proof(alternating_bit.SYSTEM, ranking)
