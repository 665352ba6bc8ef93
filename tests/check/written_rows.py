"""Reads the rows of a page that `pdproto export --markdown` has written back into the language.

The system says which symbols, machines and variables there are, and nothing about its rows.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

from pdproto.ground.layout import value_name
from pdproto.spec.language import (
    ANY,
    Call,
    Completion,
    Formula,
    Row,
    Sort,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    each,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.elements import UNSET, ElementFunction
from pdproto.spec.language.formula import FALSE, TRUE, Value
from pdproto.spec.language.symbols import Sent, Symbol

T = TypeVar("T")

WORD: Final = re.compile(r"\w+|:=|!=|[(){},:=]")
HEADING: Final = re.compile(
    r"(?P<name>\w+): (?P<on>by itself|(?:on|call|timer|completion) \w+(?:\([\w, ]*\))?)"
    r"(?P<detector>, a failure detector)?"
    r"(?:, (?P<before>[\w, ]+) -> (?P<to>\w+)|, in (?P<at>\w+(?:, \w+)*?))?"
    r"(?P<fair>, fair|, not fair)?(?:, chooses (?P<choose>[\w, ]+))?")


def rewritten(system: System, page: str, variables: Mapping[str, Sort]) -> System:
    """The system with the rows of its page in the place of its own."""
    blocks = iter(re.findall(r"```text\n(.*?)\n```", page, re.DOTALL))
    return replace(
        system,
        tables=tuple([_table(system, table, next(blocks), variables) for table in system.tables]),
        faults={layer: tuple([_table(system, table, next(blocks), variables) for table in tables])
                for layer, tables in system.faults.items()},
    )


def _table(system: System, table: Table, block: str, variables: Mapping[str, Sort]) -> Table:
    symbols = {symbol.name: symbol for symbol in system.variables}
    rows = [_row(table, text.splitlines(), symbols, variables) for text in block.split("\n\n")]
    return Table(table.machine, state=table.state, rows=tuple(rows))


def _row(
    table: Table, lines: Sequence[str], symbols: Mapping[str, Symbol], variables: Mapping[str, Sort]
) -> Row:
    heading = HEADING.fullmatch(lines[0])
    assert heading is not None, lines[0]

    def reader(text: str) -> _Reader:
        return _Reader(WORD.findall(text), symbols, variables)

    told: dict[str, list[str]] = {"when": [], "do": [], "send": [], "why": []}
    for line in lines[1:]:
        word, text = line.split(maxsplit=1)
        told[word].append(text)
    states = () if table.state is None else table.state.values
    values = {value_name(value): value for value in states if isinstance(value, Enum)}
    before = (heading["before"] or heading["at"] or "").removesuffix("any state")
    return Row(
        heading["name"],
        on=reader(heading["on"]).trigger(detector=heading["detector"] is not None),
        at=tuple(values[one] for one in before.split(", ") if one),
        to=values[heading["to"]] if heading["to"] else None,
        when=[reader(text).whole(_Reader.formula) for text in told["when"]],
        choose=tuple(variables[name] for name in (heading["choose"] or "").split(", ") if name),
        do=[reader(text).whole(_Reader.update) for text in told["do"]],
        send=[reader(text).whole(_Reader.sending) for text in told["send"]],
        fair=None if heading["fair"] is None else heading["fair"] == ", fair",
        why=" ".join(told["why"]),
    )


@dataclass
class _Reader:
    """Reads a text from left to right. words: the rest of it."""

    words: list[str]
    symbols: Mapping[str, Symbol]
    variables: Mapping[str, Sort]

    def whole(self, read: Callable[["_Reader"], T]) -> T:
        """The meaning of the whole text."""
        found = read(self)
        assert not self.words, self.words
        return found

    def comes(self, *words: str) -> bool:
        """Whether the text goes on with these words, which are then read."""
        if self.words[:len(words)] != [*words]:
            return False
        del self.words[:len(words)]
        return True

    def listed(self, end: str) -> Iterator[str]:
        """The words of a list, up to and with its end."""
        while not self.comes(end):
            yield self.words.pop(0)
            self.comes(",")

    # Formulas

    def formula(self) -> Formula:
        for words, quantifier in ((("for", "all"), forall), (("for", "some"), exists)):
            if self.comes(*words):
                bound = [self.variables[name] for name in self.listed(":")]
                return quantifier(tuple(bound), self.formula())
        parts = [self.unit()]
        joined: Callable[..., Formula] = all_of
        for word, join in (("and", all_of), ("or", any_of)):
            while self.comes(word):
                joined = join
                parts.append(self.unit())
        first = parts[0] if len(parts) == 1 else joined(*parts)
        return implies(first, self.formula()) if self.comes("implies") else first

    def unit(self) -> Formula:
        if self.comes("not"):
            return ~self.unit()
        if self.comes("("):
            inner = self.formula()
            assert self.comes(")")
            return inner
        for word, constant in (("true", TRUE), ("false", FALSE)):
            if self.comes(word):
                return constant
        if self.words[0] in self.variables:
            return self.related(self.variables[self.words.pop(0)])
        return self.claim(*self.cell())

    def related(self, left: Sort) -> Formula:
        word = self.words.pop(0)
        if word == "before" and self.words[0] in self.symbols:
            symbol, arguments = self.cell()
            return symbol(*arguments).after(left)  # type: ignore[no-any-return]
        right = self.variables[self.words.pop(0)]
        return {"=": left.same, "!=": left.differs, "before": left.before}[word](right)

    def cell(self) -> tuple[Any, tuple[Any, ...]]:
        """A symbol and its arguments."""
        symbol = self.symbols[self.words.pop(0)]
        names = self.listed(")") if self.comes("(") else ()
        return symbol, tuple([ANY if name == "any" else self.variables[name] for name in names])

    def claim(self, symbol: Any, arguments: tuple[Sort, ...]) -> Formula:
        """What is said about a cell."""
        cell = symbol(*arguments)
        negated = self.words[:2] == ["not", "in"] and self.words.pop(0) == "not"
        if self.comes("in", "{"):
            among = any_of(*(self.has(symbol, cell, name) for name in self.listed("}")))
            return ~among if negated else among
        if self.comes("before"):
            return cell.before(self.variables[self.words.pop(0)])  # type: ignore[no-any-return]
        for word, negated in (("=", False), ("!=", True)):
            if self.comes(word):
                return self.has(symbol, cell, self.words.pop(0), negated=negated)
        assert isinstance(cell, Formula)
        return cell

    def has(self, symbol: Symbol, cell: Any, name: str, *, negated: bool = False) -> Formula:
        """That the cell has the value of this name, or has another one."""
        if isinstance(symbol, ElementFunction) and name == UNSET:
            return cell.is_set if negated else cell.unset  # type: ignore[no-any-return]
        value = self.variables[name] if isinstance(symbol, ElementFunction) else (
            value_of(symbol, name))
        return cell != value if negated else cell == value  # type: ignore[no-any-return]

    # Effects and triggers

    def update(self) -> Any:
        symbol, arguments = self.cell()
        assert self.comes(":=")
        cell, name = symbol(*arguments), self.words.pop(0)
        if not isinstance(symbol, ElementFunction):
            one = cell.to(value_of(symbol, name))
        else:
            one = cell.clear() if name == UNSET else cell.to(self.variables[name])
        return self.for_each(one)

    def sending(self) -> Any:
        symbol, arguments = self.cell()
        return self.for_each(symbol(*arguments))

    def for_each(self, one: Any) -> Any:
        if not self.comes("for", "each"):
            return one
        bound = [self.variables[self.words.pop(0)]]
        while self.comes(","):
            bound.append(self.variables[self.words.pop(0)])
        many = tuple(bound) if len(bound) > 1 else bound[0]
        return each(many, one, where=self.formula()) if self.comes("where") else each(many, one)

    def trigger(self, *, detector: bool) -> Sent | Call | Completion | Timer | None:
        kind = self.words.pop(0)
        if kind == "by":
            return None
        if kind == "on":
            symbol, arguments = self.cell()
            return symbol(*arguments)  # type: ignore[no-any-return]
        name = self.words.pop(0)
        if kind == "timer":
            return Timer(name, detector=detector)
        given = [self.variables[one] for one in self.listed(")")] if self.comes("(") else []
        return Call(name, *given) if kind == "call" else Completion(name, *given)


def value_of(symbol: Symbol, name: str) -> Value:
    """The value of a symbol that has this name."""
    (value,) = [value for value in symbol.values if value_name(value) == name]
    return value
