"""A formula from text, such as `exists(c, phase(c) == Phase.HOLDING) & ~lent(c0)`.

The text is read as the syntax tree of a Python expression, and nothing of it is run. The words are
those of the language, with elements (`c0`) as further arguments, and the words of traces: `=`,
`and`, `or`, `not`, values in lower case. A variable that no quantifier binds stands for some
element.
"""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Final

from pdproto.ground.grounding import Ground
from pdproto.ground.layout import cell_name, value_name
from pdproto.ground.program import Guard
from pdproto.spec.language.elements import UNSET, ElementCell, ElementFunction
from pdproto.spec.language.formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
    Value,
    bound_variables,
    free_variables,
    implies,
    normal,
)
from pdproto.spec.language.kinds import suggestion
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent, Symbol

TEXT_MAX: Final = 2_000  # characters of one formula
CONSTANTS: Final[Mapping[str, Formula]] = {
    "TRUE": TRUE, "true": TRUE, "True": TRUE, "FALSE": FALSE, "false": FALSE, "False": FALSE,
}
# The operators of the language, and the `=` of traces, as words of Python that bind as one expects.
SPELLED: Final = (
    (re.compile(r"(?<![=!<>])=(?!=)"), "=="),
    (re.compile(r"&"), " and "), (re.compile(r"\|"), " or "), (re.compile(r"~"), " not "),
)


class FormulaError(Exception):
    """The text is no formula over this system. The message says what to write instead."""


def wanted(ground: Ground, text: str) -> list[Guard]:
    """Guards whose union is the set of states in which the formula holds. Raises FormulaError."""
    reader = _Reader(ground)
    formula = reader.formula(text)
    given = reader.elements
    free = tuple(v for v in free_variables(formula) if v not in given)
    try:
        return [
            guard
            for environment in ground.environments(free)
            for guard in ground.patterns(normal(formula), {**given, **environment})
        ]
    except SpecError as error:
        raise FormulaError(error.problem) from error


def example(ground: Ground) -> str:
    """A formula over the system, for an error or as a hint: `phase(c0) = holding`."""
    symbols = ground.system.variables
    symbol = next((one for one in symbols if not one.is_boolean), symbols[0])
    cell = cell_name(symbol, (0,) * len(symbol.sorts))
    if symbol.is_boolean:
        return cell
    return f"{cell} = {value_name(symbol.values[-1])}"


class _Reader:
    """Reads one formula. elements: what the text names by an element, as a variable with it."""

    def __init__(self, ground: Ground) -> None:
        self.ground: Final = ground
        self.elements: Final[dict[Sort, int]] = {}
        system = ground.system
        self.symbols: Final[dict[str, Symbol]] = {
            symbol.name: symbol for symbol in (*system.variables, *system.rigids)}
        self.sorts: Final = system.sorts
        self.known: Final[dict[str, set[type[Sort]]]] = {}
        for formula in system.formulas():
            for variable in (*free_variables(formula), *bound_variables(formula)):
                self.known.setdefault(variable.name, set()).add(type(variable))

    def formula(self, text: str) -> Formula:
        if len(text) > TEXT_MAX:
            raise FormulaError(f"a formula may have {TEXT_MAX:,} characters, not {len(text):,}")
        for operator, word in SPELLED:
            text = operator.sub(word, text)
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = getattr(error, "msg", None) or "it cannot be read"
            raise FormulaError(
                f"this is no formula: {why}; write one such as {example(self.ground)}") from error
        try:
            return self._read(tree.body)
        except SpecError as error:
            raise FormulaError(error.problem) from error
        except RecursionError:
            raise FormulaError("this formula is nested too deeply") from None

    def _read(self, node: ast.expr) -> Formula:
        match node:
            case ast.BoolOp(ast.And(), parts):
                return And(tuple(map(self._read, parts)))
            case ast.BoolOp(ast.Or(), parts):
                return Or(tuple(map(self._read, parts)))
            case ast.UnaryOp(ast.Not(), part):
                return Not(self._read(part))
            case ast.Constant(bool() as truth):
                return TRUE if truth else FALSE
            case ast.Name(name) if name in CONSTANTS and name not in self.symbols:
                return CONSTANTS[name]
            case ast.Compare(left, [operator], [right]):
                return self._compared(left, operator, right)
            case ast.Call(ast.Name(name), arguments, []) if name in self._words:
                return self._words[name](arguments)
            case ast.Call(ast.Attribute(left, name), arguments, []):
                return self._related(left, name, arguments)
            case ast.Attribute(left, name) if self._has_words(left):
                return self._of_cell(left, name, None)
            case ast.Call() | ast.Name():
                return self._fact(*self._cell(node))
            case _:
                raise FormulaError(f"{ast.unparse(node)} is no formula: write one such as "
                                   f"{example(self.ground)}")

    @property
    def _words(self) -> Mapping[str, Callable[[list[ast.expr]], Formula]]:
        return {
            "all_of": lambda parts: And(tuple(map(self._read, parts))),
            "any_of": lambda parts: Or(tuple(map(self._read, parts))),
            "implies": lambda parts: implies(*map(self._read, _exactly(2, "implies", parts))),
            "forall": lambda parts: self._quantified(Forall, "forall", parts),
            "exists": lambda parts: self._quantified(Exists, "exists", parts),
        }

    def _quantified(
        self, kind: type[Forall] | type[Exists], word: str, parts: list[ast.expr]
    ) -> Formula:
        heading, body = _exactly(2, word, parts)
        formula = self._read(body)
        names = heading.elts if isinstance(heading, ast.Tuple) else [heading]
        for node in reversed(names):
            if not isinstance(node, ast.Name):
                raise FormulaError(f"{word} binds variables, not {ast.unparse(node)}")
            bound = [v for v in free_variables(formula)
                     if v.name == node.id and v not in self.elements]
            if len(bound) > 1:
                sorts = " and ".join(type(v).__name__ for v in bound)
                raise FormulaError(f"{node.id} stands for {sorts}: give them two names")
            # A variable that the body does not use changes nothing: no sort is empty.
            formula = kind(bound[0], formula) if bound else formula
        return formula

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Formula:
        negative = isinstance(operator, ast.NotEq | ast.NotIn)
        match operator:
            case ast.Eq() | ast.NotEq():
                formula = self._equal(left, right)
            case ast.In() | ast.NotIn() if isinstance(right, ast.Set | ast.Tuple | ast.List):
                formula = Or(tuple(self._equal(left, value) for value in right.elts))
            case _:
                raise FormulaError(f"compare with = or !=, or with `in {{a, b}}`, not as in "
                                   f"{ast.unparse(left)} ... {ast.unparse(right)}")
        return Not(formula) if negative else formula

    def _equal(self, left: ast.expr, right: ast.expr) -> Formula:
        if isinstance(left, ast.Name) and left.id not in self.symbols:
            return Same(*self._pair(left, right))
        symbol, arguments = self._cell(left)
        if isinstance(symbol, ElementFunction) and len(arguments) == len(symbol.domain):
            cell = ElementCell(symbol, arguments)
            if isinstance(right, ast.Name) and right.id == UNSET:
                return cell.unset
            return cell == self._argument(right, symbol.sorts[-1])
        return Atom(symbol, arguments, self._value(symbol, right))

    def _fact(self, symbol: Symbol, arguments: tuple[Sort, ...]) -> Formula:
        if isinstance(symbol, Message) and symbol.fifo is not None and (
                len(arguments) != len(symbol.sorts)):
            raise FormulaError(f"{symbol.name} waits in a channel: write {symbol.name}(...).queued")
        if len(arguments) != len(symbol.sorts):
            raise FormulaError(f"{symbol.name} has a value: compare it, as in "
                               f"{symbol.name}(...) = {symbol.sorts[-1].element(0)}")
        if not symbol.is_boolean:
            value = value_name(symbol.values[-1])
            raise FormulaError(f"{symbol.name} has a value: compare it, as in "
                               f"{symbol.name}(...) = {value}")
        return Atom(symbol, arguments, True)

    def _cell(self, node: ast.expr) -> tuple[Symbol, tuple[Sort, ...]]:
        match node:
            case ast.Call(ast.Name(name), nodes, []):
                pass
            case ast.Name(name):
                nodes = []
            case _:
                raise FormulaError(f"{ast.unparse(node)} is no variable, relation or message of "
                                   f"{self.ground.system.name}")
        symbol = self.symbols.get(name)
        if symbol is None:
            known = ", ".join(self.symbols)
            raise FormulaError(f"there is no {name!r}{suggestion(name, self.symbols)}; "
                               f"there are: {known}")
        if len(nodes) not in (len(symbol.domain), len(symbol.sorts)):
            raise FormulaError(f"{symbol.signature} was given {len(nodes)} arguments")
        arguments = tuple(map(self._argument, nodes, symbol.sorts))
        return symbol, arguments

    def _argument(self, node: ast.expr, sort: type[Sort]) -> Sort:
        if not isinstance(node, ast.Name):
            raise FormulaError(f"{ast.unparse(node)} is neither an element, such as "
                               f"{sort.element(0)}, nor a variable of {sort.__name__}")
        variable = sort(node.id)
        size = self.ground.sizes[sort]
        element = next((i for i in range(size) if sort.element(i) == node.id), None)
        if element is not None:
            self.elements[variable] = element
        elif re.fullmatch(rf"{re.escape(sort.prefix)}\d+", node.id):
            raise FormulaError(f"there is no {node.id}: {sort.__name__} has {size} elements here, "
                               f"up to {sort.element(size - 1)}")
        else:
            self.known.setdefault(node.id, set()).add(sort)
        return variable

    def _related(self, left: ast.expr, name: str, arguments: list[ast.expr]) -> Formula:
        if name == "among":
            return Or(tuple(self._equal(left, value) for value in arguments))
        if self._has_words(left):
            return self._of_cell(left, name, arguments)
        if name not in ("same", "differs", "before"):
            raise FormulaError(f"there is no .{name}(): there are same, differs, before and among")
        (right,) = _exactly(1, name, arguments)
        one, two = self._pair(left, right)
        return one.before(two) if name == "before" else (
            Same(one, two) if name == "same" else Not(Same(one, two)))

    def _of_cell(self, left: ast.expr, name: str, given: list[ast.expr] | None) -> Formula:
        """A word behind a message in a channel, or behind a function into a sort.

        given: its arguments; None if it stands without parentheses.
        """
        symbol, arguments = self._cell(left)
        if isinstance(symbol, Message):
            sent = Sent(symbol, arguments, True)
            if given is None and name in ("queued", "arrived"):
                return sent.queued if name == "queued" else sent.arrived
            if given is not None and name == "at":
                (place,) = _exactly(1, name, given)
                return sent.at(self._argument(place, symbol.fifo or symbol.sorts[-1]))
        if isinstance(symbol, ElementFunction):
            cell = ElementCell(symbol, arguments)
            if given is None and name in (UNSET, "is_set"):
                return cell.unset if name == UNSET else cell.is_set
            if given is not None and name in ("before", "after"):
                (other,) = _exactly(1, name, given)
                element = self._argument(other, symbol.sorts[-1])
                return cell.before(element) if name == "before" else cell.after(element)
        there = (".queued, .arrived and .at(place), in a channel"
                 if isinstance(symbol, Message) else
                 ".unset, .is_set, .before(element), .after(element) and .among(...)")
        raise FormulaError(f"there is no .{name} behind {ast.unparse(left)}: there are {there}")

    def _has_words(self, node: ast.expr) -> bool:
        """Whether the language has words behind this: a message, or a cell with an element."""
        name = node.func if isinstance(node, ast.Call) else node
        return isinstance(name, ast.Name) and isinstance(
            self.symbols.get(name.id), Message | ElementFunction)

    def _pair(self, left: ast.expr, right: ast.expr) -> tuple[Sort, Sort]:
        """Two variables or elements of one sort."""
        for node in (left, right):
            if isinstance(node, ast.Name):
                sorts = self._sorts_of(node.id)
                if len(sorts) == 1:
                    (sort,) = sorts
                    return self._argument(left, sort), self._argument(right, sort)
        raise FormulaError(f"the sort of {ast.unparse(left)} and {ast.unparse(right)} is not "
                           f"clear: name an element, or a variable of the spec")

    def _sorts_of(self, name: str) -> set[type[Sort]]:
        elements = {sort for sort in self.sorts
                    if any(sort.element(i) == name for i in range(self.ground.sizes[sort]))}
        return elements or self.known.get(name, set())

    def _value(self, symbol: Symbol, node: ast.expr) -> Value:
        match node:
            case ast.Name(name) | ast.Attribute(ast.Name(), name):
                text = name
            case ast.Constant(bool() | str() as given):
                text = str(given)
            case _:
                text = ast.unparse(node)
        by_name = {value_name(value): value for value in symbol.values}
        by_name |= {value.name: value for value in symbol.values if not isinstance(value, bool)}
        found = by_name.get(text, by_name.get(text.lower()))
        if found is None:
            values = ", ".join(map(value_name, symbol.values))
            raise FormulaError(f"{text!r} is no value of {symbol.name}"
                               f"{suggestion(text, map(value_name, symbol.values))}; "
                               f"it has: {values}")
        return found


def _exactly(count: int, word: str, parts: list[ast.expr]) -> list[ast.expr]:
    if len(parts) != count:
        raise FormulaError(f"{word} takes {count} argument{'s' * (count > 1)}, not {len(parts)}")
    return parts
