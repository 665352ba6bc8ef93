"""Formulas and updates in TLA+."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeAlias

from pdproto.check.opinions.tla_names import Names, Scope
from pdproto.ground.layout import value_name
from pdproto.spec.language.channels import Channel, channel_of, ends_of
from pdproto.spec.language.formula import (
    TRUE,
    And,
    AtLeast,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
    Value,
    exists,
)
from pdproto.spec.language.numbered import IsNumber, NumberOf
from pdproto.spec.language.numbers import Either, Extreme
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import (
    Each,
    Message,
    Number,
    Rigid,
    Sent,
    Symbol,
    Update,
    sent_by,
)
from pdproto.spec.language.terms import Arithmetic, Comparison, Constant, NumberCell, Term

Effect: TypeAlias = Update | Sent | Each

ALL: Final = "\\A"
SOME: Final = "\\E"
AND: Final = " /\\ "
OR: Final = " \\/ "
PRIME: Final = "'"

COLUMNS: Final = 100
_SIGNS: Final = {"==": "=", "!=": "#", "//": "\\div"}
OPEN, COMPARED, TERM = range(3)  # how strongly a text binds


@dataclass(frozen=True, slots=True)
class ChannelEffects:
    """The effects of a row on a channel: it may take its first message, and sends others."""

    taken: Sent | None
    sent: list[Sent | Each] = field(default_factory=list)


def literal(value: Value) -> str:
    """A constant: TRUE, FALSE, or a string for a member of an enum."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, Number):
        return str(value)
    return string(value_name(value))


def string(text: str) -> str:
    """A string of TLA+."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def comment(text: str, indent: str = "") -> Iterator[str]:
    """The lines of a comment of at most COLUMNS columns."""
    line = ""
    for word in text.split():
        if line and len(indent) + 3 + len(line) + len(word) >= COLUMNS:
            yield f"{indent}\\* {line}"
            line = ""
        line = f"{line} {word}".strip()
    if line:
        yield f"{indent}\\* {line}"


class Writer:
    """Writes formulas and effects with the names of one module."""

    def __init__(self, names: Names) -> None:
        self.names: Final = names

    def quantified(self, word: str, variables: Sequence[Sort], scope: Scope) -> str:
        r"""`\A c \in Client, r \in Round : `, with the names that the scope has for them."""
        if not variables:
            return ""
        bounds = (f"{', '.join(scope[v] for v in same)} \\in {self.names[sort]}"
                  for sort, same in groupby(variables, key=type))
        return f"{word} {', '.join(bounds)} : "

    def formula(self, formula: Formula, scope: Scope, least: int = TERM) -> str:
        """The formula, in parentheses if it binds more weakly than `least`."""
        text, binding = self._text(formula, scope)
        return text if binding >= least else f"({text})"

    def _text(self, formula: Formula, scope: Scope) -> tuple[str, int]:
        match formula:
            case Comparison() | AtLeast():
                return self._numbers(formula, scope), COMPARED
            case And(()):
                return "TRUE", TERM
            case Or(()):
                return "FALSE", TERM
            case And((part,)) | Or((part,)):
                return self._text(part, scope)
            case And(parts):
                return AND.join(self.formula(part, scope, COMPARED) for part in parts), OPEN
            case Or(parts):
                return self._disjunction(parts, scope)
            case Not(part):
                return self._negation(part, scope)
            case Same(left, right):
                return f"{scope[left]} = {scope[right]}", COMPARED
            case Before(left, right):
                return f"{scope[left]} < {scope[right]}", COMPARED
            case Forall():
                return self._quantifier(ALL, formula, scope), OPEN
            case Exists():
                return self._quantifier(SOME, formula, scope), OPEN
            case Atom():
                return self._atom(formula, scope)
        raise AssertionError(formula)

    def _numbers(self, formula: Comparison | AtLeast, scope: Scope) -> str:
        if isinstance(formula, AtLeast):
            return f"{self._counts(formula, scope)} >= {formula.bound}"
        sign = _SIGNS.get(formula.sign, formula.sign)
        return f"{self.term(formula.left, scope)} {sign} {self.term(formula.right, scope)}"

    def term(self, term: Term, scope: Scope) -> str:
        """A number in TLA+, in parentheses if it is not a single one."""
        match term:
            case Constant(number):
                return str(number) if number >= 0 else f"({number})"
            case NumberOf(variable):
                return scope[variable]
            case NumberCell(symbol, arguments):
                return applied(self.names[symbol], [scope[v] for v in arguments])
            case Arithmetic(sign, left, right):
                return (f"({self.term(left, scope)} {_SIGNS.get(sign, sign)} "
                        f"{self.term(right, scope)})")
            case Either(condition, yes, no):
                return (f"(IF {self.formula(condition, scope, OPEN)} THEN {self.term(yes, scope)} "
                        f"ELSE {self.term(no, scope)})")
            case Extreme():
                return self._extreme(term, scope)
        (_, one), = term.value({}).counted
        return f"({self._counts(AtLeast((one,), 0), scope)})"

    def _extreme(self, term: Extreme, scope: Scope) -> str:
        inner = self.names.bind(scope, term.variables)
        names, sorts = self._choices(term.variables, inner)
        where = self.formula(term.where, inner, OPEN)
        kept = sorts if term.where == TRUE else f"{{{names} \\in {sorts} : {where}}}"
        each = f"{{{self.term(term.each, inner)} : {names} \\in {kept}}}"
        found = f"{'Least' if term.word == 'min_of' else 'Greatest'}({each})"
        if term.otherwise is None:
            return found
        some = self.formula(exists(term.variables, term.where), scope, OPEN)
        return f"(IF {some} THEN {found} ELSE {self.term(Constant(term.otherwise), scope)})"

    def _choices(self, variables: Sequence[Sort], scope: Scope) -> tuple[str, str]:
        """A tuple of the elements, and the set of such tuples."""
        return (tuple_of([scope[v] for v in variables]),
                " \\X ".join(self.names[type(v)] for v in variables))

    def _counts(self, formula: AtLeast, scope: Scope) -> str:
        """The sum of the summands."""
        parts = []
        for one in formula.summands:
            inner = self.names.bind(scope, one.variables)
            names, sorts = self._choices(one.variables, inner)
            parts += [f"({n}) * Cardinality({{{names} \\in {sorts} : "
                      f"{self.formula(case, inner, OPEN)}}})" for case, n in one.cases if n]
        return " + ".join(parts) or "0"

    def _negation(self, part: Formula, scope: Scope) -> tuple[str, int]:
        match part:
            case Same(left, right):
                return f"{scope[left]} # {scope[right]}", COMPARED
            case Atom(value=value) if not isinstance(value, bool):
                return f"{self._cell(part, scope)} # {literal(value)}", COMPARED
        return f"~{self.formula(part, scope)}", TERM

    def _disjunction(self, parts: Sequence[Formula], scope: Scope) -> tuple[str, int]:
        match parts:
            case (Not(premise), conclusion):
                left, right = (self.formula(p, scope, COMPARED) for p in (premise, conclusion))
                return f"{left} => {right}", OPEN
        atoms = [part for part in parts if isinstance(part, Atom)]
        if len(atoms) == len(parts) and len({(a.symbol, a.arguments) for a in atoms}) == 1:
            values = ", ".join(literal(atom.value) for atom in atoms)
            return f"{self._cell(atoms[0], scope)} \\in {{{values}}}", COMPARED
        return OR.join(self.formula(part, scope, COMPARED) for part in parts), OPEN

    def _quantifier(self, word: str, formula: Forall | Exists, scope: Scope) -> str:
        kind, variables, body = type(formula), [formula.variable], formula.body
        while isinstance(body, kind) and body.variable not in variables:
            variables.append(body.variable)
            body = body.body
        inner = self.names.bind(scope, variables)
        return self.quantified(word, variables, inner) + self.formula(body, inner, OPEN)

    def _atom(self, atom: Atom, scope: Scope) -> tuple[str, int]:
        if isinstance(atom.symbol, IsNumber):
            return f"{scope[atom.arguments[0]]} = {atom.symbol.number}", COMPARED
        if isinstance(atom.symbol, Rigid):
            name, arguments = self.names[atom.symbol], [scope[v] for v in atom.arguments]
            return (f"{tuple_of(arguments)} \\in {name}", COMPARED) if arguments else (name, TERM)
        if isinstance(atom.symbol, Message) and (channel := channel_of(atom.symbol)) is not None:
            queue, place = self._channel(channel, atom, scope), scope[atom.arguments[-1]]
            waits = f"{place} < Len({queue}) /\\ {queue}[{place} + 1] = {letter(atom, scope)}"
            return waits, OPEN
        cell = self._cell(atom, scope)
        match atom.value:
            case True:
                return cell, TERM
            case False:
                return f"~{cell}", TERM
            case value:
                return f"{cell} = {literal(value)}", COMPARED

    def _cell(self, atom: Atom, scope: Scope) -> str:
        return applied(self.names[atom.symbol], [scope[v] for v in atom.arguments])

    def after(self, symbol: Symbol, effects: Sequence[Effect], scope: Scope) -> str:
        """The symbol's value after a row: the effects on it in order, of which the last wins."""
        name = self.names[symbol]
        bulk = any(isinstance(effect, Each) or _is_bulk(effect) for effect in effects)
        if not symbol.sorts and not bulk:
            return literal(_plain(effects[-1])[1])
        if bulk:
            return self._comprehension(symbol, effects, scope)
        parts = []
        for effect in effects:
            arguments, value = _plain(effect)
            parts.append(f"![{', '.join(scope[v] for v in arguments)}] = {literal(value)}")
        return f"[{name} EXCEPT {', '.join(parts)}]"

    def _channel(self, channel: Channel, sent: Atom, scope: Scope) -> str:
        return applied(self.names[channel], [scope[v] for v in ends_of(sent)])

    def queue(self, channel: Channel, turn: ChannelEffects, scope: Scope) -> str:
        """The channel's value after a row: its first message is taken, then others are added."""
        if not channel.ends:
            text = self.names[channel]
            text = text if turn.taken is None else f"Tail({text})"
            for effect in turn.sent:
                text = f"Append({text}, {letter(sent_by(effect), scope)})"
            return text
        places = [sort(f"x{i}") for i, sort in enumerate(channel.ends, 1)]
        inner = self.names.bind(scope, places)
        text = applied(self.names[channel], [inner[place] for place in places])
        if turn.taken is not None:
            here = _conjunction(_equal(ends_of(turn.taken), places, inner))
            text = f"IF {here} THEN Tail({text}) ELSE {text}"
        for effect in turn.sent:
            text = self._appended(effect, text, places, inner)
        bounds = self.quantified("", places, inner).removesuffix(" : ").strip()
        return f"[{bounds} |-> {text}]"

    def _appended(
        self, effect: Sent | Each, text: str, places: Sequence[Sort], scope: Scope
    ) -> str:
        """The text of a channel with a message behind it, if the message is for these places."""
        sent, parts = sent_by(effect), []
        if isinstance(effect, Each):
            # The variable names an end of the channel (spec/language/channels.py).
            place = places[ends_of(sent).index(effect.variable)]
            scope = {**scope, effect.variable: scope[place]}
            parts = [self.formula(effect.where, scope, COMPARED)]
        parts += [one for one in _equal(ends_of(sent), places, scope)
                  if one.split(" = ")[0] != one.split(" = ")[1]]
        added = f"IF {_conjunction(parts)} THEN <<{letter(sent, scope)}>> ELSE <<>>"
        return f"({text}) \\o ({added})"

    def _comprehension(self, symbol: Symbol, effects: Sequence[Effect], scope: Scope) -> str:
        """The whole function anew, for effects on many cells at once."""
        places = [sort(f"{sort.__name__[0].lower()}{i}") for i, sort in enumerate(symbol.sorts, 1)]
        inner = self.names.bind(scope, places)
        text = applied(self.names[symbol], [inner[place] for place in places])
        for effect in effects:
            condition = self._covers(effect, places, inner)
            value = literal(_plain(effect)[1])
            text = f"IF {condition} THEN {value} ELSE {text}"
        if not places:
            return text
        bounds = self.quantified("", places, inner).removesuffix(" : ").strip()
        return f"[{bounds} |-> {text}]"

    def _covers(self, effect: Effect, places: Sequence[Sort], scope: Scope) -> str:
        """Whether the effect is on the cell at these places."""
        arguments, _ = _plain(effect)
        variables: Sequence[Sort] = ()
        if isinstance(effect, Each):
            variables = [effect.variable]
        elif isinstance(effect, Update):
            variables = effect.variables
        if not variables:
            where = _where(effect)
            told = [] if where == TRUE else [self.formula(where, scope, COMPARED)]
            return _conjunction([*_equal(arguments, places, scope), *told])
        inner = self.names.bind(scope, variables)
        parts = [self.formula(_where(effect), inner, COMPARED), *_equal(arguments, places, inner)]
        return f"({self.quantified(SOME, variables, inner)}{_conjunction(parts)})"


def letter(sent: Atom, scope: Scope) -> str:
    """A message in a channel: its name with its arguments."""
    arguments = [scope[v] for v, _ in zip(sent.arguments, sent.symbol.domain, strict=False)]
    return f"<<{', '.join([string(sent.symbol.name), *arguments])}>>"


def _is_bulk(effect: Update | Sent) -> bool:
    """Whether the effect is on several cells, or on one under a condition."""
    return ANY in effect.arguments or _where(effect) != TRUE or (
        isinstance(effect, Update) and bool(effect.variables))


def _where(effect: Effect) -> Formula:
    """The condition of an effect."""
    return getattr(effect, "where", TRUE)


def _equal(arguments: Sequence[Sort], places: Sequence[Sort], scope: Scope) -> list[str]:
    return [f"{scope[place]} = {scope[argument]}"
            for argument, place in zip(arguments, places, strict=True) if argument is not ANY]


def _conjunction(parts: Sequence[str]) -> str:
    kept = [part for part in parts if part != "TRUE"]
    return AND.join(kept) if kept else "TRUE"


def _plain(effect: Effect) -> tuple[tuple[Sort, ...], Value]:
    """The arguments and the value that an effect assigns."""
    if isinstance(effect, Each):
        effect = effect.sent
    return effect.arguments, effect.value


def symbol_of(effect: Effect) -> Symbol:
    """The symbol that the effect changes."""
    return effect.sent.symbol if isinstance(effect, Each) else effect.symbol


def applied(name: str, arguments: Sequence[str]) -> str:
    """`vote[p]`, or `lock` without arguments."""
    return f"{name}[{', '.join(arguments)}]" if arguments else name


def tuple_of(elements: Sequence[str]) -> str:
    """`<<c, r>>`, or a single element as it is."""
    return elements[0] if len(elements) == 1 else f"<<{', '.join(elements)}>>"
