"""Claim: a source answers every event in the same way with or without a chunk that window.py leaves
out, for any number of sinks and chunks.

Method: for each row of the table and each rule, Z3 searches a state in which the guard holds with
the chunk and not without it, or the other way round; and a state in which a row of the source or of
the engine is enabled that is about the chunk itself and changes something. Sorts are uninterpreted
and chunks are in a strict total order, so there is no bound on either. The table itself shows that
no row changes another chunk than its own. A rule is about one chunk. If several chunks are left
out, it is used once for each, the last first.
Bound: none. Assumes: nothing about the network. The caller paces itself: it may post the last chunk
of a window only if no chunk behind it is left out (rule 2).
Vacuity: each rule holds in some state. Mutants: each rule without one of its parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import z3

from pdproto.spec.handoff.ends import Sending, Write, c, h, handed, p, sending, write
from pdproto.spec.handoff.engine import ENGINE
from pdproto.spec.handoff.poll import SENDING_POLL, SOURCE_IS_OVER
from pdproto.spec.handoff.roles import Chunk, Sink
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.window import FOLLOWS, LANDED, OVER, before
from pdproto.spec.language import ANY, Formula, Row, Table, all_of, exists, forall
from pdproto.spec.language.formula import And, Atom, Before, Exists, Forall, Not, Or, Same
from pdproto.spec.language.sorts import Sort

RULES: Final = {"landed": LANDED, "follows": FOLLOWS, "over": OVER}
LEFT_OUT: Final = Chunk("left_out")
ROWS: Final = {row.name: row for row in SOURCE.rows}
# The formulas that are read from an end beside the guards of its rows.
READ: Final = {"over": SOURCE_IS_OVER} | {
    word.name.lower(): formula for formula, word in SENDING_POLL}


@dataclass
class Logic:
    """Formulas of the spec in Z3: first-order, with a function into an enumeration for a cell."""

    sorts: dict[type[Sort], Any] = field(default_factory=dict)
    functions: dict[object, Any] = field(default_factory=dict)
    values: dict[tuple[object, ...], dict[object, Any]] = field(default_factory=dict)
    constants: dict[Sort, Any] = field(default_factory=dict)
    context: z3.Context = field(default_factory=z3.Context)

    def sort(self, of: type[Sort]) -> Any:
        if of not in self.sorts:
            self.sorts[of] = z3.DeclareSort(of.__name__, self.context)
        return self.sorts[of]

    def constant(self, variable: Sort) -> Any:
        if variable not in self.constants:
            self.constants[variable] = z3.Const(variable.name, self.sort(type(variable)))
        return self.constants[variable]

    def is_before(self, left: Any, right: Any) -> Any:
        chunk = self.sort(Chunk)
        return z3.Function("before", chunk, chunk, z3.BoolSort(self.context))(left, right)

    def order(self) -> Iterator[Any]:
        """Chunks are in a strict total order."""
        x, y, z = (z3.Const(name, self.sort(Chunk)) for name in "xyz")
        yield z3.ForAll([x], z3.Not(self.is_before(x, x)))
        yield z3.ForAll([x, y], z3.Or(x == y, self.is_before(x, y), self.is_before(y, x)))
        yield z3.ForAll([x, y, z], z3.Implies(
            z3.And(self.is_before(x, y), self.is_before(y, z)), self.is_before(x, z)))

    def cell(self, atom: Atom, bound: Mapping[Sort, Any]) -> Any:
        symbol = atom.symbol
        values: tuple[Any, ...] = getattr(symbol, "values", (False, True))
        if set(values) == {False, True}:
            result, wanted = z3.BoolSort(self.context), z3.BoolVal(bool(atom.value), self.context)
        else:
            if values not in self.values:
                kind, members = z3.EnumSort(
                    type(values[0]).__name__, [value.name for value in values], self.context)
                self.values[values] = {"kind": kind, **dict(zip(values, members, strict=True))}
            result = self.values[values]["kind"]
            wanted = self.values[values][atom.value]
        if symbol not in self.functions:
            self.functions[symbol] = z3.Function(
                symbol.name, *map(self.sort, symbol.sorts), result)
        return self.functions[symbol](*(self.term(v, bound) for v in atom.arguments)) == wanted

    def term(self, variable: Sort, bound: Mapping[Sort, Any]) -> Any:
        return bound[variable] if variable in bound else self.constant(variable)

    def of(self, formula: Formula, *, without: Any = None,
           bound: Mapping[Sort, Any] | None = None) -> Any:
        """The formula. If `without` is given, the formula as if that chunk did not exist."""
        bound = bound or {}
        match formula:
            case And(parts):
                return z3.And(*(self.of(q, without=without, bound=bound) for q in parts),
                              z3.BoolVal(True, self.context))
            case Or(parts):
                return z3.Or(*(self.of(q, without=without, bound=bound) for q in parts),
                             z3.BoolVal(False, self.context))
            case Not(part):
                return z3.Not(self.of(part, without=without, bound=bound))
            case Forall(variable, body) | Exists(variable, body):
                each = z3.FreshConst(self.sort(type(variable)), variable.name)
                inner = self.of(body, without=without, bound={**bound, variable: each})
                exists = isinstance(formula, Exists)
                if without is not None and isinstance(variable, Chunk):
                    inner = (z3.And(each != without, inner) if exists
                             else z3.Implies(each != without, inner))
                return (z3.Exists if exists else z3.ForAll)([each], inner)
            case Same(left, right):
                return self.term(left, bound) == self.term(right, bound)
            case Before(left, right):
                return self.is_before(self.term(left, bound), self.term(right, bound))
            case Atom():
                return self.cell(formula, bound)
        raise AssertionError(f"{formula!r}")


def answer(logic: Logic, *claims: Any) -> z3.CheckSatResult:
    solver = z3.Solver(ctx=logic.context)
    solver.set("timeout", 20_000)
    solver.add(*logic.order(), *claims)
    found = solver.check()
    assert found != z3.unknown, solver.reason_unknown()
    return found


def rule_about(logic: Logic, rule: Formula) -> tuple[Any, Any]:
    """The rule for the chunk that is left out, and that chunk."""
    chunk = logic.constant(LEFT_OUT)
    return logic.of(rule, bound={c: chunk}), chunk


def differs(rule: Formula, guard: Formula) -> z3.CheckSatResult:
    """Whether the guard of a row about another chunk differs."""
    logic = Logic()
    holds, chunk = rule_about(logic, rule)
    stays = logic.constant(before) != chunk
    others = logic.constant(c) != chunk
    return answer(logic, holds, stays, others,
                  logic.of(guard) != logic.of(guard, without=chunk))


def acts(rule: Formula, table: Table, row: Row) -> z3.CheckSatResult:
    """Whether a row that is about the chunk itself is enabled."""
    logic = Logic()
    holds, chunk = rule_about(logic, rule)
    return answer(logic, holds, logic.of(table.condition(row), bound={c: chunk}))


# The rows that are about one chunk, and change something.
ABOUT_A_CHUNK: Final = {
    row.name: (table, row) for table in (SOURCE, ENGINE) for row in table.rows
    if row.kind == "row" and c in table.parameters(row)
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("row", ROWS)
def test_no_guard_can_tell(row: str, rule: str) -> None:
    assert differs(RULES[rule], SOURCE.condition(ROWS[row])) == z3.unsat


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("formula", READ)
def test_nor_can_a_poll(formula: str, rule: str) -> None:
    assert differs(RULES[rule], READ[formula]) == z3.unsat


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("row", ABOUT_A_CHUNK)
def test_no_row_acts_on_it(row: str, rule: str) -> None:
    assert acts(RULES[rule], *ABOUT_A_CHUNK[row]) == z3.unsat


def test_no_row_changes_a_chunk_that_it_is_not_about() -> None:
    for row in SOURCE.rows:
        for update in SOURCE.updates(row):
            for argument, sort in zip(update.arguments, update.symbol.sorts, strict=True):
                assert sort is not Chunk or (argument is not ANY and argument == c), row.name


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_about_something(rule: str) -> None:
    logic = Logic()
    holds, _ = rule_about(logic, RULES[rule])
    assert answer(logic, holds) == z3.sat


_other: Final = Sink("other")
_AT_EVERY_SINK: Final = forall(_other, write(p, h, _other, c) == Write.LANDED)
_AT_NO_SINK: Final = forall(_other, write(p, h, _other, c) == Write.NONE)
HASTY: Final = {
    "landed at some sinks only": handed(p, h, c) & exists(_other, ~_AT_NO_SINK),
    "landed, and not handed over": _AT_EVERY_SINK,
    "handed over, and no part of it sent": all_of(
        sending(p, h) == Sending.TRANSFERRING, handed(p, h, c), _AT_NO_SINK),
    "failed, and perhaps under way": sending(p, h) == Sending.FAILED,
}


@pytest.mark.parametrize("hasty", HASTY)
def test_a_rule_that_leaves_out_more_is_refuted(hasty: str) -> None:
    answers = [differs(HASTY[hasty], SOURCE.condition(row)) for row in SOURCE.rows]
    assert z3.sat in answers
