"""A table as Python source: for every row its guard, its effects, and the search for its choices.

The source is made once for a machine's table and executed (store.py), so that no event walks a
formula. For a row of the registry it looks like this:

    def guard_record_again(p, e):
        return READY.get((), V_COLLECTING) in (V_COLLECTING, V_READY) and ENTRY.get((p, e)) is ...

    def effects_record_again(p, e):
        return (), ((M_RECORDED, (p, e)), )

expressions.py turns formulas into expressions.
"""

import keyword
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import assert_never

from pdproto.runtime.expressions import Constant, Expressions, Generator, conjuncts, key_of
from pdproto.spec.language.computed import copied
from pdproto.spec.language.conflicts import overriding
from pdproto.spec.language.formula import TRUE, And, Formula, Or, free_variables, negated, normal
from pdproto.spec.language.machine import Call, Completion, Row
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Sent, Update


@dataclass(slots=True)
class Writer(Expressions):
    """Writes the source of one table's rows."""

    def __post_init__(self) -> None:
        for row in self.table.rows:
            self.find_floors(normal(self.table.condition(row)))
            self.find_floors(negated(self.table.condition(row)))
        for row in self.table.rows:
            self.row = row
            for update in self.table.updates(row):
                self._look_at(update)

    def source(self) -> str:
        """The source of all rows."""
        return "\n\n".join(text for row in self.table.rows for text in self._row(row)) + "\n"

    def parameters(self, row: Row) -> tuple[Sort, ...]:
        """The row's parameters without the machine's own variables, whose elements are fixed."""
        return tuple(v for v in self.table.parameters(row) if v not in self.own)

    def _row(self, row: Row) -> Iterator[str]:
        self.row = row
        parameters = self.parameters(row)
        for variable in parameters:
            if keyword.iskeyword(variable.name):
                self.refuse(f"{variable.name!r} is a keyword of Python: rename the variable")
        given = ", ".join(v.name for v in parameters)
        guard = normal(self.table.condition(row))
        yield f"def guard_{row.name}({given}):\n    return {self.formula(guard)}"
        assigned = self.table.assignments(row)
        updates = "".join(map(self._assignment, assigned))
        if any(overriding(assigned, number) for number, _ in enumerate(assigned)) or any(
                copied(update) for update in row.do):
            updates = f"*LAST(({updates})), "
        sends = "".join(self._send(effect) for effect in row.send)
        yield f"def effects_{row.name}({given}):\n    return ({updates}), ({sends})"
        if any(v not in arguments_of(row) for v in parameters):
            yield self._search(row, tuple(conjuncts(guard)))

    def _look_at(self, update: Update) -> None:
        """Note the symbol of an update that changes elements which no event has named yet."""
        if update.symbol in self.floors and update.value is not True:
            self.refuse(f"it makes {update.symbol} false, but a guard reads {update.symbol} by its "
                        f"floor (all earlier ones hold), which can only rise")
        if self._reaches_unnamed(update) and update.value != update.symbol.values[0]:
            self.everywhere.add(update.symbol)

    def _reaches_unnamed(self, update: Update) -> bool:
        """Whether the update changes elements that no event has named yet."""
        return any(argument is ANY and sort not in self.bounded
                   for argument, sort in zip(update.arguments, update.symbol.sorts, strict=True))

    def _assignment(self, assigned: Update) -> str:
        """The changes of one assignment, as items of a tuple display.

        An element takes the place of the one before it, if it is another one.
        """
        *cleared, update = assigned.symbol.plain(assigned)
        kept = "" if ANY in assigned.arguments else f" if key != {key_of(assigned.arguments)}"
        changes = "".join(self._update(one, kept) for one in cleared) + self._update(update)
        if assigned.where == TRUE and not assigned.variables:
            return changes
        if not assigned.variables:
            return f"*(({changes}) if {self.formula(normal(assigned.where))} else ()), "
        return f"*(change {self._selection(assigned)} for change in ({changes})), "

    def _selection(self, update: Update) -> str:
        """The loops over the elements for which the update is, and the condition on them."""
        where, loops = normal(update.where), []
        known = {*self.own, *(self.parameters(self.row) if self.row else ())}
        for variable in update.variables:
            loops.append(self._loop(variable, where, known))
            known.add(variable)
        return f"{' '.join(loops)} if {self.formula(where)}"

    def _loop(self, variable: Sort, where: Formula, known: Collection[Sort]) -> str:
        """The loop over all elements of a bounded sort, or over those of stored cells."""
        if type(variable) in self.bounded:
            return f"for {variable.name} in {self.elements(type(variable))}"
        known = {*known, variable}
        found = self._stored(variable, where, known)
        if not found:
            self.refuse(f"each({variable!r}, ...) changes cells of an unbounded sort: bound the "
                        f"sort, or let where= ask for cells with {variable!r} that are not initial")
        cells = [f"for {targets} in {buckets}.get({key}, ())"
                 for buckets, key, targets in map(self.bucket, found)]
        if len(cells) == 1:
            return cells[0]
        every = ", ".join(f"*({variable.name} {loop})" for loop in cells)
        return f"for {variable.name} in dict.fromkeys(({every}))"

    def _stored(
        self, variable: Sort, formula: Formula, known: Collection[Sort]
    ) -> list[Generator]:
        """Look-ups that together find each element for which the formula holds; none if it may
        hold for an element without a stored cell.
        """
        parts = [*conjuncts(formula)]
        for found in (self.generator(variable, part) for part in parts):
            if found and {*known}.issuperset(found.arguments):
                return [found]
        for several in (part.parts for part in parts if isinstance(part, Or)):
            each = [self._stored(variable, one, known) for one in several]
            if all(each):
                return [found for one in each for found in one]
        return []

    def _update(self, update: Update, kept: str = "") -> str:
        """The changes of one update, as items of a tuple display.

        kept: the condition on a cell (`key`) of a bulk update to be changed.
        """
        symbol, arguments, value = update.symbol, update.arguments, self.value(update.value)
        holder = self.holder(symbol)
        bulk = [i for i, argument in enumerate(arguments) if argument is ANY]
        if symbol in self.everywhere and self._reaches_unnamed(update):
            if not all(v is ANY or v in self.own for v in arguments):
                self.refuse(f"{update!r} gives a value to some of the elements of an unbounded "
                            f"sort: let ANY stand for each argument, or bound the sort")
            return f"({holder}, None, {value}), "
        if not bulk:
            return f"({holder}, {key_of(arguments)}, {value}), "
        if update.value == symbol.values[0] and symbol not in self.everywhere:
            bound = tuple(i for i in range(len(arguments)) if i not in bulk)
            index = self.index(symbol, bound, frozenset(symbol.values[1:]))
            key = key_of(tuple(arguments[i] for i in bound))
            return f"*(({holder}, key, {value}) for key in {index}.get({key}, ()){kept}), "
        names = [f"any_{i}" if i in bulk else v.name for i, v in enumerate(arguments)]
        loops = " ".join(f"for any_{i} in {self.elements(symbol.sorts[i])}" for i in bulk)
        return f"*(({holder}, ({', '.join(names)},), {value}) {loops}), "

    def _send(self, effect: Sent | Each) -> str:
        """The messages of one effect, as items of a tuple display."""
        match effect:
            case Sent():
                message = self.name(Constant(effect.symbol), f"M_{effect.symbol.name.upper()}")
                return f"({message}, {key_of(effect.arguments)}), "
            case Each(variable, sent, where):
                if type(variable) not in self.bounded:
                    self.refuse(f"each({variable!r}, ...) sends to an unbounded sort")
                condition = self.formula(normal(where))
                loop = f"for {variable.name} in {self.elements(type(variable))} if {condition}"
                return f"*({self._send(sent).removesuffix(', ')} {loop}), "
            case _:
                assert_never(effect)

    def _search(self, row: Row, guard: tuple[Formula, ...]) -> str:
        """The source of the function that finds the chosen parameters of the row.

        Its arguments are the given parameters, and candidates (or None) for each chosen one. It
        tests each part of the guard as soon as its variables are known.
        """
        parameters = self.parameters(row)
        chosen = tuple(v for v in parameters if v not in arguments_of(row))
        given = tuple(v for v in parameters if v not in chosen)
        signature = ", ".join([*(v.name for v in given), *(f"{v.name}_among" for v in chosen)])
        lines = [f"def search_{row.name}({signature}):"]
        known = {*given, *self.own}
        left = list(guard)
        depth = "    "
        for variable in (None, *chosen):
            if variable is not None:
                loop = self._candidates(variable, guard, known)
                lines.append(f"{depth}for {variable.name} in {loop}:")
                depth += "    "
                known.add(variable)
            ripe = [part for part in left if known.issuperset(free_variables(part))]
            left = [part for part in left if part not in ripe]
            if ripe:
                lines.append(f"{depth}if {self.formula(And(tuple(ripe)))}:")
                depth += "    "
        found = ", ".join(v.name for v in parameters)
        return "\n".join([*lines, f"{depth}return ({found},)", "    return None"])

    def _candidates(
        self, variable: Sort, guard: tuple[Formula, ...], known: Collection[Sort]
    ) -> str:
        """The loop for a chosen parameter: over the caller's candidates, or over stored cells."""
        name = variable.name
        every = f"MISSING({self.row.name if self.row else ''!r}, {name!r})"
        if type(variable) in self.bounded:
            every = self.elements(type(variable))
        for part in guard:
            found = self.generator(variable, part)
            if found is None or not self.narrow(found):
                continue
            if all(v in known or v == variable for v in found.arguments):
                buckets, key, targets = self.bucket(found)
                every = f"({name} for {targets} in {buckets}.get({key}, ()))"
                break
        return f"{every} if {name}_among is None else {name}_among"


def arguments_of(row: Row) -> tuple[Sort, ...]:
    """The variables to which the row's trigger gives elements."""
    match row.on:
        case Sent(arguments=arguments):
            return arguments
        case Call(parameters=parameters) | Completion(parameters=parameters):
            return parameters
        case _:
            return ()
