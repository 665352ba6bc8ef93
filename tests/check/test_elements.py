"""Functions into a sort, in each reader that treats them apart from relations."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.lint import lint, small
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, ProofSettings, prove
from pdproto.check.result import Verdict
from pdproto.check.stepping.formulas import wanted
from pdproto.check.trace.verify import verify
from pdproto.check.words import formula_text, update_text
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import cell_name
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.store import Shared
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Configuration,
    Formula,
    Ignore,
    Machine,
    Message,
    Rigid,
    Row,
    Sometimes,
    Sort,
    SpecError,
    System,
    Table,
    exists,
    forall,
    implies,
)


class Voter(Sort):
    """A server that votes."""


class Term(Sort, ordered=True):
    """A number of an election."""


v, w, x = Voter("v"), Voter("w"), Voter("x")
t, u = Term("t"), Term("u")

voter = Machine("voter", v)
chief = Machine("chief")
world = Machine("world", world=True)
vote = voter.function("vote", Voter, Term)
seen = voter.function("seen", Term)
leader = chief.function("leader", Voter)
elect = Message("elect", v, t, sender=voter, receiver=chief)
hail = Message("hail", w, v, sender=chief, receiver=voter.at(v))
knows = Rigid("knows", v, w)

VOTER = Table(voter, rows=(
    Row("cast", on=Call("cast", w, t), when=[vote(v, t).unset, ~seen(v).after(t)],
        do=[vote(v, t).to(w), seen(v).to(t)], send=[elect(v, t)]),
    Row("forget", on=Call("forget"), when=seen(v).is_set, do=[seen(v).clear()]),
    Ignore(hail(w, v), why="a voter only listens"),
))
CHIEF = Table(chief, rows=(
    Row("crown", on=elect(v, t), when=leader().unset, do=[leader().to(v)]),
    Ignore(elect(v, t), when=leader().is_set, why="there is a leader"),
))
CRASH = Table(world, rows=(Row("crash", choose=(v,), do=[vote(v, ANY).clear(), seen(v).clear()]),))

SYSTEM = System(
    "votes", "Voters vote once a term.", tables=(VOTER, CHIEF),
    properties=(
        Always("one_vote", implies((vote(v, t) == w) & (vote(v, t) == x), w.same(x))),
        Always("a_leader_was_elected", implies(leader() == v, exists(t, elect(v, t)))),
        Sometimes("all_vote_alike", exists((v, w, t), v.differs(w) & vote(v, t).same(vote(w, t)))),
        Sometimes("some_vote_is_late", seen(v).before(t) & (vote(v, t) == w)),
    ),
    final=forall((v, t), vote(v, t).is_set),
    faults={"crash": (CRASH,)},
    configurations={"default": Configuration({Voter: 2, Term: 2})},
)
SIZES = {Voter: 2, Term: 2}


def verdicts(system: System, engine: str) -> Mapping[str, Status]:
    found = obligations(system, claims(system))
    proof = prove(system, found, ProofSettings(engines=(engine,)))
    return {obligation.name: proof.status(obligation) for obligation in found}


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_that_a_cell_has_one_value_needs_no_lemma(engine: str) -> None:
    found = verdicts(SYSTEM, engine)
    assert found["vote_has_one_value at cast"] is Status.PROVED
    assert found["vote_has_one_value at crash"] is Status.PROVED
    assert set(found.values()) == {Status.PROVED}


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_an_assignment_that_changes_nothing_keeps_a_row_busy(engine: str) -> None:
    """The row sends for ever, which an assignment that always changed something would hide."""
    praise = Row("praise", choose=(v, w), when=leader() == w, do=[leader().to(w)],
                 send=[hail(w, v)])
    table = replace(CHIEF, rows=(*CHIEF.rows, praise))
    busy = replace(SYSTEM, tables=(VOTER, table), properties=(), like=SYSTEM)
    assert verdicts(busy, engine)["no_row_is_busy at praise"] is Status.FAILED
    result = check(busy, busy.configurations["default"], CheckSettings(keep_going=True))
    assert [f.verdict for f in result.findings if f.name == "no_row_is_busy"] == [Verdict.VIOLATED]


def test_axioms_that_contradict_each_other_are_refused_as_ever() -> None:
    axioms = {"all": knows(v, w), "none": ~knows(v, w)}
    contradictory = replace(SYSTEM, axioms=axioms, like=SYSTEM)
    with pytest.raises(SpecError, match="contradict"):
        verdicts(contradictory, CUTOFF)


def test_a_refuted_claim_shows_the_values() -> None:
    claim = Always("early", implies(leader() == v, seen(v).unset))
    broken = replace(SYSTEM, properties=(claim,), like=SYSTEM)
    result = check(broken, Configuration({Voter: 1, Term: 1}), CheckSettings())
    (finding,) = [f for f in result.findings if f.verdict is Verdict.VIOLATED]
    assert finding.trace is not None
    assert [
        (change.variable, change.before, change.after)
        for step in finding.trace.steps for change in step.changes
    ] == [("vote(v0, t0)", "unset", "v0"), ("seen(v0)", "unset", "t0"), ("leader", "unset", "v0")]


def test_lint_knows_that_two_values_exclude_each_other() -> None:
    """One value at a time answers each call once; of a relation, two elements may hold."""
    clerk = Machine("clerk")
    best, is_best = clerk.function("best", Voter), clerk.relation("is_best", Voter)
    met: dict[str, list[str]] = {}
    for name, one, two in (
        ("function", best() == v, best() == w), ("relation", is_best(v), is_best(w)),
    ):
        rows = (
            Row("note", on=Call("note", v), do=[best().to(v), is_best(v).to(True)]),
            Row("first", on=Call("ask", v, w), when=[v.differs(w), one], do=[best().to(w)]),
            Row("second", on=Call("ask", v, w), when=[v.differs(w), two]),
        )
        system = System("clerk", "", (Table(clerk, rows=rows),))
        met[name] = [r.message for r in lint(system, small(system)) if r.rule == "determinism"]
    assert met == {"function": [], "relation": ["first and second can both answer call ask(v, w)"]}


@pytest.mark.parametrize(("formula", "text"), [
    (leader() == v, "leader = v"),
    (leader() != v, "leader != v"),
    (leader().unset, "leader = unset"),
    (leader().is_set, "leader != unset"),
    (leader().among(v, w), "leader in {v, w}"),
    (~vote(v, t).among(v, w), "vote(v, t) not in {v, w}"),
    (seen(v).before(t), "seen(v) before t"),
    (~seen(v).after(t), "not (t before seen(v))"),
    (vote(v, t).same(vote(w, t)), "vote(v, t) = vote(w, t)"),
    (~leader().unset, "not (leader = unset)"),
])
def test_it_is_read_as_a_function(formula: Formula, text: str) -> None:
    assert formula_text(formula) == text


def test_updates_are_read_as_assignments() -> None:
    assert update_text(vote(v, t).to(w), {v: 0, t: 1, w: 1}) == "vote(v0, t1) := v1"
    assert update_text(vote(v, ANY).clear()) == "vote(v, any) := unset"
    assert repr(vote(v, t).to(w)) == "vote(v, t) := w"
    assert repr(vote(v, t) != w) == "vote(v, t) != w"


def test_the_bound_variable_is_none_of_the_arguments() -> None:
    own = Voter("vote_value")
    system = replace(SYSTEM, like=SYSTEM, properties=(
        Always("set", implies(vote(own, t) == w, vote(own, t).is_set)),))
    result = check(system, system.configurations["default"], CheckSettings())
    assert result.verdict is Verdict.HOLDS


@pytest.mark.parametrize(("typed", "formula"), [
    ("leader = v1", leader() == v), ("leader = unset", leader().unset),
    ("vote(v1, t0) != v1", vote(v, t) != v), ("vote(v1, t0, v1)", vote(v, t) == v),
])
def test_it_can_be_typed(typed: str, formula: Formula) -> None:
    ground = Ground(SYSTEM, SIZES)
    meant = ground.patterns(formula, {v: 1, t: 0})
    assert wanted(ground, typed) == meant


def test_the_text_of_a_cell_is_its_element() -> None:
    layout = Ground(SYSTEM, SIZES).layout
    state = layout.encode({(vote, (0, 1, 1)): True})
    told = {cell_name(symbol, at): text for symbol, at, (text,) in layout.texts(state)}
    assert told["vote(v0, t1)"] == "v1"
    assert told["vote(v0, t0)"] == "unset"
    assert told["leader"] == "unset"


class TestShared:
    def test_it_keeps_the_element(self) -> None:
        shared = Shared(VOTER, own=("ann",))
        assert shared.element(seen, "ann") is None
        step = shared.call("cast", "bob", 3)
        assert step.changed == ((vote, ("ann", 3, "bob"), True), (seen, ("ann", 3), True))
        assert (shared.element(vote, "ann", 3), shared.element(seen, "ann")) == ("bob", 3)
        with pytest.raises(LocalProtocolError):
            shared.call("cast", "cid", 2)  # an earlier term
        step = shared.call("cast", "cid", 4)
        assert step.changed[1:] == ((seen, ("ann", 3), False), (seen, ("ann", 4), True))
        assert shared.call("forget").changed == ((seen, ("ann", 4), False),)
        assert shared.element(seen, "ann") is None

    def test_the_same_element_again_is_no_change(self) -> None:
        again = Row("again", on=Call("again", t), when=seen(v) == t, do=[seen(v).to(t)])
        shared = Shared(Table(voter, rows=(*VOTER.rows, again)), own=("ann",))
        shared.call("cast", "bob", 3)
        assert shared.call("again", 3).changed == ()

    def test_a_fault_clears_it(self) -> None:
        shared = Shared(VOTER, own=("ann",))
        shared.call("cast", "bob", 3)
        shared.apply_fault(CRASH, "crash", v="ann")
        assert (shared.element(vote, "ann", 3), shared.element(seen, "ann")) == (None, None)

    def test_a_trace_tells_that_a_row_clears_it(self, tmp_path: Path) -> None:
        path = tmp_path / "ann.jsonl"
        with path.open("wb") as file:
            witness = SharedTrace("ann", file).begin(VOTER, ("ann",))
            shared = Shared(VOTER, own=("ann",), witness=witness)
            shared.call("cast", "bob", 3)
            shared.call("forget")
        assert verify(SYSTEM, [path]).is_explained
        text = path.read_text(encoding="utf-8")
        path.write_text(text + text.splitlines()[-1].replace('"n":3', '"n":4') + "\n", "utf-8")
        rejection = verify(SYSTEM, [path]).rejection
        assert rejection is not None
        assert rejection.why == "forget cannot fire here"
        assert rejection.trace is not None
        changes = [change for step in rejection.trace.steps for change in step.changes]
        assert [(c.variable, c.before, c.after) for c in changes][-1] == ("seen(ann)", "3", "unset")
