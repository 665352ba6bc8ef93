"""Sequences against lists of Python: states, ends that are passed, mistakes, proofs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NATIVE, PORTABLE
from pdproto.check.interpret import Interpreter
from pdproto.check.mutate.edits import EditKind, mutants
from pdproto.check.mutate.trials import MutantOutcome, prepared
from pdproto.check.prove.inherited import surviving
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.result import Verdict
from pdproto.spec.language import (
    TRUE,
    AddEffect,
    Always,
    Call,
    Configuration,
    DropEffect,
    Formula,
    Int,
    Machine,
    Refines,
    Row,
    Seq,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    edited,
    if_then_else,
    implies,
)
from tests.cli.word_systems import least
from tests.collection.model import reached


class Worker(Sort):
    """A process."""


class Item(Sort):
    """An element of a list."""


class Hue(State):
    RED = auto()
    BLUE = auto()


MOST = 3
w, i, j = Worker("w"), Item("i"), Item("j")
KINDS: dict[str, tuple[Any, list[Any]]] = {  # two values of each
    "elements": (Item, [i, j]),
    "an enum": (Hue, [Hue.RED, Hue.BLUE]),
    "numbers": (Int(4, 5), [4, 5]),
}


def lists(kind: str) -> System:
    """A worker whose calls change a list in each way. The values are chosen by two parameters."""
    values, (one, two) = KINDS[kind]
    worker = Machine("worker", w)
    log = worker.function("log", Seq(values, most=MOST))
    old = worker.function("old", Seq(values, most=MOST))
    named = (i, j) if values is Item else ()
    apart = [i.differs(j)] if named else []
    n = log(w).length
    return System("lists", "Lists.", (Table(worker, rows=(
        Row("append", on=Call("append", *named), when=[*apart, ~log(w).full],
            do=log(w).append(one)),
        Row("add", on=Call("add", *named), when=[*apart, ~log(w).full, ~log(w).has(one)],
            do=log(w).append(two)),
        Row("tail", on=Call("tail"), when=~log(w).empty, do=log(w).tail()),
        Row("halve", on=Call("halve"), do=log(w).keep(n // 2)),
        Row("clear", on=Call("clear"), when=log(w).same(old(w)), do=log(w).clear()),
        Row("last_first", on=Call("last_first"), when=n > 1, do=log(w).at(0).to(log(w).last)),
        Row("put", on=Call("put", *named), when=[*apart, ~log(w).empty, log(w).last == one],
            do=log(w).last.to(two)),
        Row("remember", on=Call("remember"), do=old(w).to(log(w))),
    )),), (Always("not_all_known", n < MOST),
           Always("never_two", n != 2, "a false claim")),
        final=TRUE, configurations={"default": Configuration(
            {Worker: 1, Item: 2} if named else {Worker: 1})})


Lists = tuple[tuple[int, ...], tuple[int, ...]]


def _after(state: Lists, pairs: Iterable[tuple[int, int]]) -> Iterator[Lists]:
    """The same with lists of Python. pairs: the first and the second value of a row."""
    log, old = state
    for one, two in pairs:
        if len(log) < MOST:
            yield (*log, one), old
            if one not in log:
                yield (*log, two), old
        if log and log[-1] == one:
            yield (*log[:-1], two), old
    if log:
        yield log[1:], old
    yield log[:len(log) // 2], old
    if log == old:
        yield (), old
    if len(log) > 1:
        yield (log[-1], *log[1:]), old
    yield log, log


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_steps_are_those_of_lists(kind: str) -> None:
    pairs = [(0, 1), (1, 0)] if kind == "elements" else [(0, 1)]
    steps: set[tuple[Lists, Lists]] = set()

    def successors(state: Lists) -> list[Lists]:
        found = [*_after(state, pairs)]
        steps.update((state, after) for after in found)
        return found

    states = reached([((), ())], successors)
    system = lists(kind)
    for engine in (NATIVE, PORTABLE):
        told = check(system, system.configurations["default"],
                     CheckSettings(keep_going=True, engine=engine))
        assert told.states == states
        assert {one.name for one in told.findings if one.verdict is Verdict.VIOLATED} == {
            "not_all_known", "never_two"}
    # The interpreter reads the tables themselves.
    book = Interpreter(system, system.configurations["default"].sizes)
    assert len(_edges(book, system)) == len(steps)


def _edges(book: Interpreter, system: System) -> set[tuple[Any, Any]]:
    (table,) = system.tables
    order: list[Any] = [frozenset()]
    edges: set[tuple[Any, Any]] = set()
    for store in order:
        for row in table.rows:
            for env in book.environments(table.parameters(row)):
                after = book.fired(table, row, store, env)
                if after is not None:
                    edges.add((store, after))
                    order += [after] if after not in order else []
    return edges


def _ended(row: Row, **parts: Any) -> tuple[System, Any]:
    system = System("ends", "Ends.", (Table(m, rows=(row,)),), final=TRUE,
                    configurations={"default": Configuration({Worker: 1, Item: 2})}, **parts)
    return system, check(system, system.configurations["default"], CheckSettings(keep_going=True))


m = Machine("m", w)
log = m.function("log", Seq(Item, most=2))
got = m.function("got", Item)
ENDS: dict[str, Callable[[], Row]] = {
    "append to a full one": lambda: Row("go", on=Call("go", i), do=log(w).append(i)),
    "the tail of an empty one": lambda: Row("go", on=Call("go"), do=log(w).tail()),
    "the head of an empty one": lambda: Row("go", on=Call("go"), do=got(w).to(log(w).head)),
    "a head that a guard reads": lambda: Row("go", on=Call("go", i), when=log(w).head != i),
    "the last of an empty one": lambda: Row("go", on=Call("go"), when=log(w).last == got(w)),
    "put past the end": lambda: Row("go", on=Call("go", i), do=log(w).at(1).to(i)),
    "put where a number says": lambda: Row(
        "go", on=Call("go", i), do=log(w).at(log(w).length).to(i)),
    "keep too many": lambda: Row("go", on=Call("go"), do=log(w).keep(log(w).length + 1)),
    "read in a choice": lambda: Row(
        "go", on=Call("go", i), do=got(w).to(if_then_else(log(w).head == i, i, got(w)))),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_is_passed_is_an_error_with_its_row(end: str) -> None:
    system, told = _ended(ENDS[end]())
    (wrong,) = [one for one in told.findings if one.name == "go_stays_in_range"]
    assert wrong.verdict is Verdict.VIOLATED
    assert wrong.place == system.row("go")[1].place  # type: ignore[index]  # it has this row


GUARDED: dict[str, Formula] = {
    "a part before it": ~log(w).empty & (log(w).head == i),
    "a premise": implies(log(w).length == 2, log(w).last == i),
    "a choice": log(w).empty | (log(w).last != i),
    "an index that is counted": implies(log(w).length > 1, log(w).at(log(w).length // 2) == i),
}


@pytest.mark.parametrize("guard", GUARDED)
def test_a_guard_that_asks_first_passes_no_end(guard: str) -> None:
    system, told = _ended(Row("go", on=Call("go", i), when=[GUARDED[guard], ~log(w).full],
                              do=log(w).append(i)))
    assert [one.verdict for one in told.findings if one.name == "go_stays_in_range"] == ["holds"]
    assert system.properties


def test_a_claim_that_reads_past_the_end_is_an_error() -> None:
    row = Row("go", on=Call("go", i), when=~log(w).full, do=log(w).append(i))
    _, told = _ended(row, properties=(Always("first", implies(got(w) == i, log(w).head == i)),
                                      Always("head", log(w).head.among(i) | TRUE)))
    found = {one.name: one.verdict for one in told.findings}
    assert found["head"] == "holds"
    assert found["head_stays_in_range"] == "violated"
    assert found["first_stays_in_range"] == "holds"


def first_of_an_empty_list(question: str) -> System:
    """A list that starts empty; the question reads its first number there."""
    one = Machine("one")
    numbers = one.function("numbers", Seq(Int(1, 2), most=2))
    abstract = Machine("abstract")
    first = abstract.function("first", Int(1, 2))
    tables = (Table(one, rows=(Row("put", on=Call("put"), when=~numbers().full,
                                   do=numbers().append(1)),)),)
    if question == "deadlock":
        return System("first", "Reads.", tables, final=numbers().head != 2)
    claim = Refines("refines", System("abstract", "Stays.", (Table(abstract),), final=TRUE),
                    mapping=first().to(numbers().head))
    return System("first", "Reads.", tables, (claim,), final=TRUE)


@pytest.mark.parametrize("question", ["deadlock", "refines"])
def test_no_other_question_reads_past_an_end(question: str) -> None:
    """Also if it is the only question, by the explorer and by a proof."""
    one = first_of_an_empty_list(question)
    asked = one.meant([question])
    found = check(one, Configuration({}), CheckSettings(properties=asked)).findings
    assert {each.name: each.verdict for each in found}[f"{question}_stays_in_range"] == "violated"
    assert [each.assurance for each in found if each.verdict == "violated"] == [
        "refuted for its one size"]
    if question == "refines":
        proof = ProofSubject(one, (), {})
        told = Verdicts(proof, prove(one, proof.obligations(asked[:1]), ProofSettings()), asked[:1])
        assert told.units[question].unmet == (f"{question}_stays_in_range",)
        assert told.exit_status == 1


def with_lemma(lemma: Formula, **options: Any) -> ProofSubject:
    """A list, and its latest element, with this lemma."""
    go = Row("go", on=Call("go", i), when=~log(w).full,
             do=[*log(w).append(i), got(w).to(i)])
    one = System("kept", "A list.", (Table(m, rows=(go,)),),
                 (Always("empty_has_none", implies(got(w).is_set, ~log(w).empty)),), final=TRUE)
    return ProofSubject(one, (Always("lemma", lemma, **options),), {})


def proved_with(lemma: Formula, **options: Any) -> Verdicts:
    one = with_lemma(lemma, **options)
    return Verdicts(one, prove(one.system, one.obligations(), ProofSettings()))


def test_a_lemma_that_reads_past_an_end_is_not_proved() -> None:
    """Its plain formula holds in each state: behind the end each place has its first value."""
    told = proved_with(log(w).head.among(i) | TRUE)
    assert told.units["lemma"].standing == "open"
    assert told.units["lemma"].unmet == ("lemma_stays_in_range",)
    assert told.units["lemma_stays_in_range"].standing == "failed"
    assert told.exit_status == 1
    guarded = proved_with(implies(log(w).length > 0, log(w).head.among(i) | TRUE))
    assert {unit.standing for unit in guarded.units.values()} == {"proved"}
    assert guarded.exit_status == 0


def test_a_claim_by_a_lemma_that_reads_past_an_end_rests_on_that() -> None:
    past = proved_with(log(w).head.among(i) | TRUE, by=("empty_has_none",))
    assert past.units["lemma"].unmet == ("lemma_stays_in_range",)


def test_an_edit_keeps_no_lemma_that_reads_past_an_end_in_it() -> None:
    one = with_lemma(log(w).head.among(i) | TRUE)
    assert [lemma.name for lemma in one.lemmas] == ["lemma", "lemma_stays_in_range"]
    left = surviving(one, lambda asked: prove(one.system, asked, ProofSettings()))
    assert (left.lemmas, left.broken) == ((), ("lemma", "lemma_stays_in_range"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_knows_sequences(kind: str) -> None:
    system = lists(kind)
    subject = ProofSubject(replace(system, properties=(), like=system), (), {})
    told = prove(subject.system, subject.obligations(), ProofSettings(timeout_s=20.0))
    assert told.outcomes
    assert {one.judgement.status for one in told.outcomes} == {Status.PROVED}


def test_an_edit_drops_and_adds_a_word_of_a_list() -> None:
    system, before = _ended(Row("go", on=Call("go", i), when=~log(w).full, do=log(w).append(i)))
    less = edited(system, "less", DropEffect("go", log(w).append(i)))
    more = edited(less, "more", AddEffect("go", log(w).append(i)))
    sizes = system.configurations["default"]
    told = [check(one, sizes, CheckSettings(keep_going=True)).states for one in (less, more)]
    assert told == [1, before.states]
    with pytest.raises(SpecError, match="go has no"):
        edited(system, "none", DropEffect("go", log(w).tail()))


def test_two_lists_that_change_together_are_a_list_of_pairs() -> None:
    """At most two pairs of two values: 1 + 4 + 16 states."""
    one, two = m.function("first", Seq(Item, most=2)), m.function("second", Seq(Hue, most=2))
    pushing = [Row(f"push_{hue.name.lower()}", on=Call(f"push_{hue.name.lower()}", i),
                   when=~one(w).full, do=[one(w).append(i), two(w).append(hue)])
               for hue in list(Hue)[:2]]
    system = System("pairs", "Pairs.", (Table(m, rows=(*pushing,)),),
                    (Always("as_long", one(w).length == two(w).length),), final=TRUE)
    told = check(system, Configuration({Worker: 1, Item: 2}), CheckSettings(keep_going=True))
    assert (told.verdict, told.states) == (Verdict.HOLDS, 21)


def test_a_copied_element_is_that_of_the_other_function() -> None:
    """Both functions change places in one step; what is unset is copied too."""
    one, two = m.function("one", Item), m.function("two", Item)
    system = System("swap", "Swap.", (Table(m, rows=(
        Row("set", on=Call("set", i), do=one(w).to(i)),
        Row("swap", on=Call("swap"), do=[one(w).to(two(w)), two(w).to(one(w))]))),),
        (Always("never", one(w).unset | two(w).unset),), final=TRUE)
    told = check(system, Configuration({Worker: 1, Item: 2}), CheckSettings(keep_going=True))
    assert told.states == 9
    (found,) = [finding for finding in told.findings if finding.name == "never"]
    assert (found.verdict, found.trace_length) == (Verdict.VIOLATED, 3)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no values": (lambda: Seq(5, most=2), "want the values of an element first"),  # type: ignore[arg-type]  # the mistake
    "pairs": (lambda: Seq((Item, Hue), most=2),  # type: ignore[arg-type]  # the mistake
              "a list of pairs is two lists, which a row changes together"),
    "too long": (lambda: Seq(Item, most=100), "want most= from 1 to 64"),
    "an index past the end": (lambda: log(w).at(2),
                              "counted from 0: write 0 to 1, or declare more with most="),
    "before the first": (lambda: log(w).at(-1), "past the end"),
    "another kind": (lambda: log(w).to(m.function("hues", Seq(Hue, most=2))(w)),
                     "want another sequence with Seq(Item, most=2)"),
    "another sort": (lambda: log(w).append(w), "w is no value of log_0(w)"),
    "a start": (lambda: m.function("x", Seq(Item, most=2), init=3), "empty at the start"),  # type: ignore[call-overload]  # the mistake
    "a formula": (lambda: log(w) & log(w), "a sequence is no formula"),
    "a copied element of another sort": (lambda: got(w).to(m.function("who", Worker)(w)),  # type: ignore[arg-type]  # the mistake
                                         "want a variable of Item, or another function into it"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(mistake: str) -> None:
    make, told = MISTAKES[mistake]
    with pytest.raises(SpecError) as refused:
        make()
    assert told in refused.value.problem
    assert "\n" not in str(refused.value)
    assert refused.value.place.path.endswith("test_sequences.py")


def test_a_mutant_without_the_condition_of_a_reading_is_killed() -> None:
    """Seen red: it survived, since the reading was split, and told no more where it
    is meant; and a comparison under a quantifier ended `pdproto mutate` with an internal error.
    """
    worker = Machine("worker", w)
    log, got = worker.function("log", Seq(Hue, most=2)), worker.function("got", Hue)
    system = System("taking", "It takes the first.", (Table(worker, rows=(
        Row("add", on=Call("add"), when=~log(w).full, do=log(w).append(Hue.RED)),
        Row("take", on=Call("take"), when=~log(w).empty & (log(w).head == Hue.RED),
            do=got(w).to(Hue.BLUE)),
    )),), (Always("true", TRUE),), final=TRUE,
        configurations={"default": Configuration({Worker: 1})})
    trials = prepared([system])
    (mutant,) = (one for one in trials.mutants
                 if str(one).endswith("take: drop `log_length(w) != 0`"))
    found = trials.judged(mutant)
    assert found.outcome is MutantOutcome.KILLED
    assert found.kill is not None
    assert found.kill.property == "take_stays_in_range"
    assert {one.change for one in mutants([least(True)])} >= {EditKind.NEGATE_CONJUNCT}
