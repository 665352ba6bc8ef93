"""How formulas read, node by node, and that what reads alike is alike."""

import pytest

from pdproto.check.words import (
    assumption_texts,
    effect_text,
    formula_text,
    sent_text,
    trigger_name,
    trigger_text,
    update_text,
)
from pdproto.spec.language import (
    ANY,
    FALSE,
    TRUE,
    Call,
    Completion,
    Fairness,
    Formula,
    Machine,
    Message,
    Rigid,
    Row,
    Sort,
    State,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.formula import Atom


class Rank(Sort, ordered=True):
    """One that votes."""


class Vote(State):
    OPEN = auto()
    YES = auto()
    NO = auto()


p, q, r = Rank("p"), Rank("q"), Rank("r")
rank = Machine("rank", p)
chief = Machine("chief")
vote = rank.function("vote", Vote)
told = rank.relation("told", Rank)
done = chief.relation("done")
yes = Message("yes", p, sender=rank, receiver=chief)
stop = Message("stop", sender=chief, receiver=rank)
feeds = Rigid("feeds", p, q)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (TRUE, "true"),
        (FALSE, "false"),
        (vote(p) == Vote.YES, "vote(p) = yes"),
        (vote(p) != Vote.YES, "vote(p) != yes"),
        (~~(vote(p) == Vote.YES), "not vote(p) != yes"),
        (done(), "done"),
        (~done(), "not done"),
        (Atom(done, (), False), "not done"),
        (~Atom(done, (), False), "done"),
        (yes(p), "yes(p)"),
        (stop(), "stop()"),
        (feeds(p, q), "feeds(p, q)"),
        (p.same(q), "p = q"),
        (p.differs(q), "p != q"),
        (p.before(q), "p before q"),
        (~p.before(q), "not (p before q)"),
        (vote(p).among(Vote.YES, Vote.NO), "vote(p) in {yes, no}"),
        (vote(p).among(Vote.YES), "vote(p) = yes"),
        (~vote(p).among(Vote.YES, Vote.NO), "vote(p) not in {yes, no}"),
        (done() & told(p, q) & yes(p), "done and told(p, q) and yes(p)"),
        (done() | told(p, q) | yes(p), "done or told(p, q) or yes(p)"),
        (~(done() | yes(p)), "not (done or yes(p))"),
        ((done() | yes(p)) & stop(), "(done or yes(p)) and stop()"),
        ((done() & yes(p)) | stop(), "(done and yes(p)) or stop()"),
        (
            vote(p).among(Vote.YES, Vote.NO) | done(),
            "vote(p) in {yes, no} or done",
        ),
        (
            implies(vote(p) == Vote.YES, vote(q) != Vote.NO),
            "vote(p) = yes implies vote(q) != no",
        ),
        (implies(vote(p) != Vote.YES, done()), "vote(p) != yes implies done"),
        (implies(done() & yes(p), stop() | yes(q)), "done and yes(p) implies stop() or yes(q)"),
        (implies(done(), implies(yes(p), stop())), "done implies (yes(p) implies stop())"),
        (implies(implies(done(), yes(p)), stop()), "(done implies yes(p)) implies stop()"),
        (implies(done(), forall(p, yes(p))), "done implies for all p: yes(p)"),
        (~done() | yes(p) | stop(), "not done or yes(p) or stop()"),
        (forall((p, q), told(p, q)), "for all p, q: told(p, q)"),
        (forall(p, exists(q, told(p, q))), "for all p: for some q: told(p, q)"),
        (forall(p, yes(p)) & done(), "(for all p: yes(p)) and done"),
        (~forall(p, yes(p)), "not (for all p: yes(p))"),
        (all_of(any_of(done())), "done"),
    ],
)
def test_formulas_read_as_people_write_them(formula: Formula, text: str) -> None:
    assert formula_text(formula) == text


def test_an_environment_replaces_free_variables_only() -> None:
    formula = told(p, q) & forall(q, told(p, q))
    assert formula_text(formula, {p: 0, q: 1}) == "told(r0, r1) and (for all q: told(r0, q))"
    assert formula_text(p.before(q), {p: 0, q: 1}) == "r0 before r1"


def test_updates() -> None:
    assert update_text(vote(p).to(Vote.NO)) == "vote(p) := no"
    assert update_text(told(p, ANY).to(False)) == "told(p, any) := false"
    assert update_text(told(p, q).to(True), {p: 1, q: 0}) == "told(r1, r0) := true"


def test_effects() -> None:
    assert effect_text(stop()) == "stop()"
    assert effect_text(each(p, yes(p))) == "yes(p) for each p"
    assert (
        effect_text(each(q, yes(q), where=feeds(p, q)), {p: 0, q: 0})
        == "yes(q) for each q where feeds(r0, q)"
    )
    assert sent_text(yes(p), {p: 1}) == "yes(r1)"


def test_triggers_read_as_in_a_trace() -> None:
    assert trigger_text(None) == ""
    assert trigger_text(yes(p)) == "on yes(p)"
    assert trigger_text(stop()) == "on stop()"
    assert trigger_text(Call("abort")) == "call abort"
    assert trigger_text(Call("pick", r), {r: 2}) == "call pick(r2)"
    assert trigger_text(Timer("lost")) == "timer lost"
    assert trigger_text(Completion("write", p)) == "completion write(p)"


def test_triggers_share_a_name_under_any_names_of_arguments() -> None:
    assert trigger_name(None) == ("", "")
    assert trigger_name(yes(p)) == trigger_name(yes(q)) == ("message", "yes")
    assert trigger_name(Call("write", p)) == ("call", "write")
    assert trigger_name(Completion("write", p)) == ("completion", "write")
    assert trigger_name(Timer("write")) == ("timer", "write")


def test_a_formula_of_no_known_kind_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        formula_text(Formula())


FAIR_ROWS = "each fair row that stays enabled fires"
LOST, LATE = Timer("lost", detector=True), Timer("late")


@pytest.mark.parametrize(("on", "texts"), [
    (None, [FAIR_ROWS]),
    (LOST, ["every timer fires", "there are no timers"]),
    (LATE, ["every timer fires", "safety nets never fire", "there are no timers"]),
    ("over", [FAIR_ROWS, "delivery takes the message off the network"]),
], ids=["neither", "detector", "safety net", "message"])
def test_an_assumption_is_about_something_that_the_system_has(
    on: Timer | str | None, texts: list[str]
) -> None:
    one, two = Machine("one"), Machine("two")
    ended = two.relation("ended")
    trigger = Message(on, sender=one, receiver=two)() if isinstance(on, str) else on
    row = Row("end", on=trigger, do=[ended().to(True)])
    system = System("ends", "", (Table(one), Table(two, rows=(row,))))
    assert assumption_texts(system, Fairness) == tuple(texts)
