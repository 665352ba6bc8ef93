"""Formulas from text: the same meaning as in the language, and nothing of the text is run."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.check.interpret import Interpreter
from pdproto.check.stepping.formulas import TEXT_MAX, FormulaError, wanted
from pdproto.spec.examples import alternating_bit
from pdproto.spec.examples.lock_server import Lock, Phase, c, d, lock, phase, request
from pdproto.spec.examples.lock_server import r as round_
from pdproto.spec.language import Formula, exists, forall, implies
from pdproto.spec.language.formula import free_variables
from tests.check.stepping.test_walk import random_states, walker

SAME = {
    "phase(c) == Phase.HOLDING": phase(c) == Phase.HOLDING,
    "phase(c) = holding": phase(c) == Phase.HOLDING,
    "phase(c) != idle": phase(c) != Phase.IDLE,
    "phase(c) in {waiting, holding}": phase(c).among(Phase.WAITING, Phase.HOLDING),
    "phase(c) not in {waiting, holding}": ~phase(c).among(Phase.WAITING, Phase.HOLDING),
    "phase(c).among(Phase.WAITING)": phase(c) == Phase.WAITING,
    "lock == taken & ~request(c, r)": (lock() == Lock.TAKEN) & ~request(c, round_),
    "lock() = taken and not request(c, r)": (lock() == Lock.TAKEN) & ~request(c, round_),
    "exists(c, phase(c) = waiting) | lock = taken":
        exists(c, phase(c) == Phase.WAITING) | (lock() == Lock.TAKEN),
    "forall((c, r), implies(request(c, r), phase(c) = waiting))":
        forall((c, round_), implies(request(c, round_), phase(c) == Phase.WAITING)),
    "phase(c) = waiting and c != d and phase(d) = waiting":
        (phase(c) == Phase.WAITING) & c.differs(d) & (phase(d) == Phase.WAITING),
    "all_of(phase(c) = waiting, any_of(lock = free, TRUE))": phase(c) == Phase.WAITING,
}


@pytest.mark.parametrize(("text", "formula"), SAME.items())
def test_a_text_has_the_meaning_of_the_language(text: str, formula: Formula) -> None:
    walked = walker()
    ground = walked.ground
    guards = wanted(ground, text)
    oracle = Interpreter(ground.system, ground.sizes)
    for state in random_states(walked, seed=3, walks=8, steps=12):
        values = ground.layout.decode(state)
        expected = any(oracle.holds(formula, values, env)
                       for env in oracle.environments(free_variables(formula)))
        assert any(guard.holds(state) for guard in guards) == expected


def test_an_element_is_the_element() -> None:
    walked = walker()
    state = walked.after(walked.follow(["ask(c1, r0)"]))
    for text, holds in (("phase(c1) = waiting", True), ("phase(c0) = waiting", False),
                        ("phase(c) = waiting and c = c1", True),
                        ("phase(c) = waiting and c = c0", False),
                        ("exists(c, phase(c) = waiting and c.differs(c0))", True)):
        assert any(guard.holds(state) for guard in wanted(walked.ground, text)) is holds, text


REFUSED = {
    "phase(c0) = hodling": "'hodling' is no value of phase (perhaps holding?); "
                           "it has: idle, waiting, holding",
    "phse(c0) = holding": "there is no 'phse' (perhaps phase?)",
    "phase(c7) = idle": "there is no c7: Client has 2 elements here, up to c1",
    "phase(c0)": "phase has a value: compare it, as in phase(...) = holding",
    "phase() = idle": "phase(Client) was given 0 arguments",
    "phase(3) = idle": "3 is neither an element, such as c0, nor a variable of Client",
    "phase(c0) < holding": "compare with = or !=",
    "phase = ": "this is no formula: invalid syntax",
    "": "this is no formula",
    "r.after(s)": "there is no .after()",
    "zebra = unicorn": "the sort of zebra and unicorn is not clear",
    "forall(phase(c0) = idle)": "forall takes 2 arguments, not 1",
    "exists(c0 = c1, TRUE)": "exists binds variables, not c0 == c1",
    "exists(x, phase(x) = idle and request(c0, x))": "x stands for Client and Round",
    "c.before(d)": "Client has no order",
    "lambda: 1": "is no formula",
    "__import__('os').system('true')": "there is no .system()",
    "(1).__class__": "is no formula",
    "phase.__init__": "is no formula",
    "open('/etc/passwd')": "there is no 'open'",
    "[x for x in (1, 2)]": "is no formula",
    "f'{phase}'": "is no formula",
    "(" * 500 + ")" * 500: "this is no formula",
    "x" * (TEXT_MAX + 1): f"a formula may have {TEXT_MAX:,} characters",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_gives_the_right_form(text: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(REFUSED[text])):
        wanted(walker().ground, text)


@given(st.text(alphabet="phase(c01)=idle&|~.,{} lockrequest'\"[]:*+-\n\0", max_size=60))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    with suppress(FormulaError):
        wanted(GROUND, text)


GROUND = walker().ground


LINK = alternating_bit.PROTOCOL
data, ack = LINK.data, LINK.ack
i, j, k, s, t = (alternating_bit.i, alternating_bit.j, alternating_bit.k, alternating_bit.s,
                 alternating_bit.t)
OF_CELLS = {
    "data(i).queued": data(i).queued,
    "data(i).arrived and not ack(i).queued": data(i).arrived & ~ack(i).queued,
    "data(i).at(s)": data(i).at(s),
    "exists((s, t), data(i).at(s) & data(j).at(t) & s.before(t) & i.before(j))":
        exists((s, t), data(i).at(s) & data(j).at(t) & s.before(t) & i.before(j)),
    "current.unset": LINK.current().unset,
    "current().is_set & ~newest.is_set": LINK.current().is_set & ~LINK.newest().is_set,
    "newest.before(i) & current.after(j)": LINK.newest().before(i) & LINK.current().after(j),
}


@pytest.mark.parametrize(("text", "formula"), OF_CELLS.items())
def test_channels_and_elements_have_their_words(text: str, formula: Formula) -> None:
    walked = walker(alternating_bit.SYSTEM)
    ground = walked.ground
    guards = wanted(ground, text)
    oracle = Interpreter(ground.system, ground.sizes, ground.faults, ground.given)
    seen = set()
    for state in random_states(walked, seed=3, walks=30, steps=25):
        values = ground.layout.decode(state)
        expected = any(oracle.holds(formula, values, env)
                       for env in oracle.environments(free_variables(formula)))
        assert any(guard.holds(state) for guard in guards) == expected
        seen.add(expected)
    assert seen == {True, False}


@pytest.mark.parametrize(("text", "said"), [
    ("data(i0)", "data waits in a channel: write data(...).queued"),
    ("current.queued", "there is no .queued behind current: there are .unset, .is_set, .before("),
    ("data(i0).first", "there is no .first behind data(i0): there are .queued, .arrived and .at("),
    ("data(i0).at(p9)", "there is no p9: Place has 3 elements here, up to p2"),
])
def test_their_mistakes_are_told(text: str, said: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(said)):
        wanted(walker(alternating_bit.SYSTEM).ground, text)
