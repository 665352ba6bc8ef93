"""The proof of Paxos: the claims that Z3 is asked without, and what happens without a lemma."""

import pytest

from pdproto.check.prove import confirming, cutoff, quantified
from pdproto.check.prove.confirming import confirmed
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.judging import judged
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.stratified import edges, stratified
from pdproto.check.prove.subject import ProofSubject
from pdproto.spec.examples import paxos, paxos_broken
from pdproto.spec.examples.paxos import left, vote
from pdproto.spec.examples.voting import Acceptor, Ballot, Quorum, Value, a, c, member, q
from pdproto.spec.language import Always, System, all_of, exists, forall, implies
from pdproto.spec.lemmas.paxos_lemmas import LEMMAS
from tests.collection import agreement as numbers

SYSTEM = paxos.SYSTEM
LIMIT_S = 2.0
# The claim and the row that fail without the lemma.
CARRIED = {
    "a_proposal_is_kept": "a_proposal_excludes_other_values at adopt",
    "a_vote_follows_a_proposal": "validity at learn",
    "ballots_before_a_promise_are_left": "a_voter_stays_or_leaves at vote",
    "ballots_before_a_left_one_are_left": "no_vote_is_later_than_the_latest at vote",
    "a_voter_stays_or_leaves": "a_report_is_of_an_earlier_vote at report",
    "the_latest_vote_is_a_vote": "a_report_is_of_an_earlier_vote at report",
    "no_vote_is_later_than_the_latest": "a_report_excludes_later_votes at report",
    "a_promise_excludes_earlier_votes": "a_proposal_excludes_other_values at propose",
    "a_report_is_of_an_earlier_vote": "a_proposal_excludes_other_values at adopt",
    "a_report_leaves_earlier_ballots": "a_report_excludes_later_votes at vote",
    "a_report_excludes_later_votes": "a_proposal_excludes_other_values at adopt",
    "a_proposal_excludes_other_values": "agreement at learn",
    "a_learned_value_has_a_quorum": "agreement at learn",
    "a_voter_has_a_latest_vote": "a_promise_excludes_earlier_votes at promise",
    "a_latest_vote_has_a_value": "a_promise_excludes_earlier_votes at promise",
}
SOON = {"ballots_before_a_left_one_are_left", "the_latest_vote_is_a_vote"}


def asked(name: str, lemmas: tuple[Always, ...] = LEMMAS, system: System = SYSTEM) -> Obligation:
    """The obligation of that name: a claim and a row."""
    return next(o for o in obligations(system, claims(system, lemmas)) if o.name == name)


def status(name: str, lemmas: tuple[Always, ...] = LEMMAS, system: System = SYSTEM) -> Status:
    (judgement,) = quantified.decide(system, [asked(name, lemmas, system)], LIMIT_S)
    return judgement.status


@pytest.mark.parametrize("lemma", [
    pytest.param(name, marks=() if name in SOON else pytest.mark.nightly) for name in CARRIED])
def test_the_proof_needs_each_lemma(lemma: str) -> None:
    kept = tuple(one for one in LEMMAS if one.name != lemma)
    assert len(kept) == len(LEMMAS) - 1
    assert status(CARRIED[lemma], kept) is not Status.PROVED


def test_every_lemma_is_taken_away() -> None:
    assert [*CARRIED] == [one.name for one in LEMMAS]


def test_the_proof_refutes_acceptors_that_forget_their_votes() -> None:
    assert status("a_promise_excludes_earlier_votes at promise",
                  system=paxos_broken.SYSTEM) is Status.FAILED


def test_a_claim_that_closes_a_cycle_of_sorts_is_left_out() -> None:
    every = asked("agreement at learn").sequent.assumed
    kept = stratified(every, tuple(SYSTEM.axioms.values()))
    assert {one.name for one in every} - {one.name for one in kept} == {
        "a_voter_has_a_latest_vote", "a_latest_vote_has_a_value"}


def test_an_edge_leads_from_each_forall_to_each_exists_under_it() -> None:
    nested = forall(q, exists(a, member(q, a) & left(a, c)))
    assert set(edges(nested)) == {(Quorum, Acceptor), (Ballot, Acceptor)}
    # A `forall` before an arrow is an `exists`.
    before = implies(forall(a, left(a, c)), exists(q, member(q, a)))
    assert set(edges(before)) == {
        (Ballot, Acceptor), (Ballot, Quorum), (Acceptor, Acceptor), (Acceptor, Quorum)}
    assert not set(edges(implies(vote(a, c, Value("v")), left(a, c))))


@pytest.mark.parametrize(("limit", "most"), [("WEAKENED_MAX", 2_000), ("EXACT_MAX", 20)])
def test_the_cut_off_leaves_a_question_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """Weakened instances grow with each `for some`; they once took all memory."""
    monkeypatch.setattr(cutoff, limit, most)
    (judgement,) = cutoff.decide(
        SYSTEM, [asked("a_learned_value_has_a_quorum at vote")], LIMIT_S)
    assert judgement.status is Status.REFUSED
    assert judgement.note.startswith(f"its instances are more than {most:,} clauses; use Z3")


def test_a_model_of_a_large_question_is_not_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each pair of elements took hours where Z3 with quantifiers takes a second.
    """
    def never(*_: object) -> None:
        raise AssertionError("the model is evaluated")

    settings = ProofSettings(timeout_s=LIMIT_S)
    proof = prove(SYSTEM, [asked("a_promise_excludes_earlier_votes at promise")], settings)
    assert [o.judgement.status for o in proof.outcomes] == [Status.REFUSED]
    monkeypatch.setattr(confirming, "CONFIRMED_MAX", 10_000)
    monkeypatch.setattr(confirming, "stands", never)
    assert confirmed(SYSTEM, proof, LIMIT_S) == proof


def in_numbers() -> tuple[Always, ...]:
    """Lemmas of the Paxos whose ballots are numbers, which compare them as numbers."""
    k, q, d, e, f, u, w = (getattr(numbers, name) for name in "kqdefuw")
    accept, vote, promise, report = (
        getattr(numbers, name) for name in ("accept", "vote", "promise", "report"))
    joined, latest, voted = numbers.joined, numbers.latest, numbers.voted
    return (
        Always("one_proposal", implies(accept(d, w) & accept(d, u), w.same(u))),
        Always("votes_are_proposed", implies(vote(k, d, w), accept(d, w))),
        Always("voters_joined", implies(vote(k, d, w), joined(k) >= d)),
        Always("the_latest_is_joined", latest(k) <= joined(k)),
        Always("voters_have_a_latest", implies(vote(k, d, w), latest(k) >= d)),
        Always("promisers_joined", implies(promise(k, d), joined(k) >= d)),
        Always("reporters_joined", implies(report(k, d, e, w), (joined(k) >= d) & (e < d))),
        Always("the_latest_is_a_vote", implies((latest(k) == d) & (voted(k) == w), vote(k, d, w))),
        Always("the_latest_has_a_value", implies(latest(k) >= 0, voted(k).is_set)),
        Always("reports_are_votes", implies(report(k, d, e, w), vote(k, e, w))),
        Always("no_vote_before_a_promise", implies(promise(k, d) & (e < d), ~vote(k, e, w))),
        Always("no_vote_between", implies(
            all_of(report(k, d, e, w), e < f, f < d), ~vote(k, f, u))),
        Always("another_value_is_left", implies(
            all_of(accept(d, w), e < d, w.differs(u)),
            exists(k, all_of(numbers.member(q, k), ~vote(k, e, u), joined(k) > e)))),
    )


@pytest.mark.nightly
def test_paxos_in_numbers_is_proved() -> None:
    """For all numbers of acceptors and values. The count of its states is in the collection."""
    lemmas = in_numbers()
    proved = judged(ProofSubject(numbers.PAXOS, lemmas, {}),
                    ProofSettings(timeout_s=60.0)).proved
    assert {"agreement", "report_stays_in_range", *(one.name for one in lemmas)} <= proved


@pytest.mark.nightly
def test_paxos_in_numbers_needs_its_lemmas() -> None:
    """Without the one about the values that are left, a later proposal may be of another value."""
    lemmas = tuple(one for one in in_numbers() if one.name != "another_value_is_left")
    proved = judged(ProofSubject(numbers.PAXOS, lemmas, {}),
                    ProofSettings(timeout_s=60.0)).proved
    assert "agreement" not in proved
