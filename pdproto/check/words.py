"""The text of formulas, updates and triggers: `vote(p) = committed implies vote(q) != aborted`.

An environment replaces variables by their elements. So the same formula is `vote(p)` in a document
and `vote(p0)` in a trace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Final, TypeAlias, assert_never

from pdproto.check.number_words import OPPOSITE, NumberWords
from pdproto.ground.layout import value_name
from pdproto.spec.language.computed import Chosen
from pdproto.spec.language.elements import UNSET, ElementCell, ElementFunction
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
)
from pdproto.spec.language.machine import Call, Completion, Timer, Trigger
from pdproto.spec.language.numbered import IsNumber, NumberAxiom
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Cell, Computed, Each, Message, Sent, Symbol, Update
from pdproto.spec.language.system import System
from pdproto.spec.language.terms import Comparison, Term

Elements: TypeAlias = Mapping[Sort, int]

VARIABLES: Final[Elements] = {}  # no environment: every variable is shown by its name


class _Binding(IntEnum):
    """How strongly a text binds. A weaker text inside a stronger one gets parentheses."""

    OPEN = 0  # a quantifier or an implication
    JOINED = 1  # `and`, `or`: never mixed without parentheses
    CLOSED = 2


FAIR_ROWS: Final = "each fair row that stays enabled fires"


def assumption_texts(system: System, under: Iterable[Fairness]) -> tuple[str, ...]:
    """The assumptions of a liveness claim, without those about timers, safety nets and messages
    that the system lacks.
    """
    timers = [row.on for _, row in system.rows() if isinstance(row.on, Timer)]
    about = {
        Fairness.TIMERS: bool(timers),
        Fairness.DETECTORS: any(not timer.detector for timer in timers),
        Fairness.NO_TIMERS: bool(timers),
        Fairness.CONSUMED: any(isinstance(one, Message) for one in system.variables),
    }
    least = str(Fairness.TIMERS) if timers else FAIR_ROWS
    strong = [row.name for _, row in system.rows() if row.is_strong]
    more = f", and {', '.join(strong)} if enabled again and again" if strong else ""
    return tuple(dict.fromkeys(f"{one if about[one] else least}{more}" for one in under))


def assuming(system: System, under: Iterable[Fairness]) -> str:
    """The assumptions behind a verdict: "if every timer fires; if safety nets never fire"."""
    return "; ".join(f"if {text}" for text in assumption_texts(system, under))


def formula_text(formula: Formula, elements: Elements = VARIABLES) -> str:
    """The text of a formula."""
    return _text(formula, elements)[0]


def update_text(update: Update, elements: Elements = VARIABLES) -> str:
    """The text of an assignment: `heard(p) := true`; a bulk argument is `any`."""
    inner = {v: i for v, i in elements.items() if v not in update.variables}
    cell, value = _reading(update, inner)
    return f"{cell} := {value}{_for_each(update.variables, update.where, inner)}"


def effect_text(effect: Sent | Each, elements: Elements = VARIABLES) -> str:
    """The text of a message that is sent: `commit()`, `abort(s) for each s where feeds(s, r)`."""
    match effect:
        case Sent():
            return sent_text(effect, elements)
        case Each(variable, sent, where):
            # The variable of `each` hides a variable of the environment with the same name.
            inner = {v: i for v, i in elements.items() if v != variable}
            return f"{sent_text(sent, inner)}{_for_each((variable,), where, inner)}"
        case _:
            assert_never(effect)


def _numbers(elements: Elements) -> NumberWords:
    """The texts of numbers with these elements in the places of variables."""

    def inside(bound: Sequence[Sort]) -> Elements:
        return {v: i for v, i in elements.items() if v not in bound}

    return NumberWords(lambda symbol, arguments, bound: _applied(symbol, arguments, inside(bound)),
                       lambda formula, bound: formula_text(formula, inside(bound)),
                       lambda variable, bound: _argument(variable, inside(bound)))


def _value_text(value: object, elements: Elements) -> str:
    """The text of a value that is assigned: a constant, an element, or a computed one."""
    match value:
        case Computed(term):
            return _value_text(term, elements)
        case bool() | Enum():
            return value_name(value)
        case Term():
            return _numbers(elements).term(value)
        case Chosen():
            return _numbers(elements).chosen(value, lambda one: _value_text(one, elements))
        case Cell(symbol, arguments) | ElementCell(symbol, arguments):
            return _applied(symbol, arguments, elements)
        case Formula():
            return formula_text(value, elements)
        case Sort():
            return _argument(value, elements)
    return repr(value)


def _for_each(variables: tuple[Sort, ...], where: Formula, elements: Elements) -> str:
    condition = "" if where == TRUE else f" where {formula_text(where, elements)}"
    if not variables:
        return condition
    return f" for each {', '.join(map(repr, variables))}{condition}"


def sent_text(sent: Sent, elements: Elements = VARIABLES) -> str:
    """The text of a message instance, always with parentheses: `prepared(p)`, `commit()`."""
    return f"{sent.symbol.name}({_arguments(sent.arguments, elements)})"


def trigger_text(trigger: Trigger, elements: Elements = VARIABLES) -> str:
    """The text of a trigger: `on prepared(p)`, `call prepare`, `timer lost`, `completion write(c)`.

    Empty for a row without a trigger.
    """
    match trigger:
        case None:
            return ""
        case Sent():
            return f"on {sent_text(trigger, elements)}"
        case Call(name, parameters):
            return f"call {_called(name, parameters, elements)}"
        case Completion(name, parameters):
            return f"completion {_called(name, parameters, elements)}"
        case Timer(name):
            return f"timer {name}"
        case _:
            assert_never(trigger)


def trigger_name(trigger: Trigger) -> tuple[str, str]:
    """The kind and the name of a trigger. Rows with equal ones share a column of the table."""
    match trigger:
        case None:
            return "", ""
        case Sent():
            return "message", trigger.symbol.name
        case Call():
            return "call", trigger.name
        case Completion():
            return "completion", trigger.name
        case Timer():
            return "timer", trigger.name
        case _:
            assert_never(trigger)


def _text(formula: Formula, elements: Elements) -> tuple[str, _Binding]:
    match formula:
        case Comparison(left=left, sign=sign, right=right):
            return _numbers(elements).compared(left, sign, right), _Binding.CLOSED
        case And() | Or() if len(formula.parts) == 1 and not isinstance(formula, NumberAxiom):
            return _text(formula.parts[0], elements)
        case And():
            return _conjunction(formula, elements)
        case Or():
            return _disjunction(formula, elements)
        case Forall() | Exists() if (text := _about_element(formula, elements)) is not None:
            return text, _Binding.CLOSED
        case Forall():
            return _quantified("for all", formula, elements), _Binding.OPEN
        case Exists():
            return _quantified("for some", formula, elements), _Binding.OPEN
        case Not(part):
            return _negated(part, elements), _Binding.CLOSED
        case Same(left, right):
            return _related(left, "=", right, elements), _Binding.CLOSED
        case Before(left, right):
            return _related(left, "before", right, elements), _Binding.CLOSED
        case AtLeast():
            return _numbers(elements).at_least(formula), _Binding.CLOSED
        case Atom(value=value):
            return _atom(formula, elements, positive=value is not False), _Binding.CLOSED
    raise AssertionError(formula)


def _conjunction(formula: And, elements: Elements) -> tuple[str, _Binding]:
    if isinstance(formula, NumberAxiom):
        return formula.text, _Binding.OPEN
    if not formula.parts:
        return "true", _Binding.CLOSED
    return _joined(" and ", _conjuncts(formula), elements), _Binding.JOINED


def _disjunction(formula: Or, elements: Elements) -> tuple[str, _Binding]:
    """A disjunction as `or`, as membership of a set, or as an implication."""
    among = _among(formula, elements)
    if among is not None:
        return among, _Binding.CLOSED
    match formula.parts:
        case ():
            return "false", _Binding.CLOSED
        case (Not(premise), conclusion):
            left = _within(premise, elements, _Binding.JOINED)
            right, binding = _text(conclusion, elements)
            nested = binding is _Binding.OPEN and isinstance(conclusion, Or)
            return f"{left} implies {_bracketed(right, nested)}", _Binding.OPEN
        case _:
            return _joined(" or ", _disjuncts(formula), elements), _Binding.JOINED


def _atom(atom: Atom, elements: Elements, *, positive: bool) -> str:
    if isinstance(atom.symbol, IsNumber):
        equal = "=" if positive else "!="
        return f"{_argument(atom.arguments[0], elements)} {equal} {atom.symbol.number}"
    if isinstance(atom.value, bool) and not isinstance(atom.symbol, ElementFunction):
        cell = _cell(atom, elements)
        return cell if positive else f"not {cell}"
    cell, value = _reading(atom, elements)
    return f"{cell} {'=' if positive else '!='} {value}"


def _negated(part: Formula, elements: Elements) -> str:
    match part:
        case Comparison():
            opposite = OPPOSITE[part.sign]
            return _numbers(elements).compared(part.left, opposite, part.right)
        case Atom(value=value):
            return _atom(part, elements, positive=value is False)
        case Same(left, right):
            return _related(left, "!=", right, elements)
        case Before(left, right):
            return f"not ({_related(left, 'before', right, elements)})"
        case Forall() | Exists() if (text := _about_element(part, elements)) is not None:
            return f"not ({text})"
        case Or() if (among := _among(part, elements, negated=True)) is not None:
            return among
        case _:
            return f"not {_within(part, elements, _Binding.CLOSED)}"


def _among(formula: Formula, elements: Elements, *, negated: bool = False) -> str | None:
    """`vote(p) in {a, b}` for a disjunction over several values of one cell."""
    if not isinstance(formula, Or) or len(formula.parts) < 2:
        return None
    parts = [part for part in formula.parts if isinstance(part, Atom)]
    cells = {(part.symbol, part.symbol.reading(part.arguments, part.value)[0]) for part in parts}
    if len(parts) != len(formula.parts) or len(cells) != 1:
        return None
    if isinstance(parts[0].value, bool) and not isinstance(parts[0].symbol, ElementFunction):
        return None
    values = ", ".join(_reading(part, elements)[1] for part in parts)
    return f"{_reading(parts[0], elements)[0]} {'not in' if negated else 'in'} {{{values}}}"


def _quantified(word: str, formula: Forall | Exists, elements: Elements) -> str:
    """One heading for consecutive quantifiers of the same kind: `for all p, q: ...`."""
    kind, variables, body = type(formula), [formula.variable], formula.body
    while isinstance(body, kind):
        variables.append(body.variable)
        body = body.body
    inner = {v: i for v, i in elements.items() if v not in variables}
    return f"{word} {', '.join(map(repr, variables))}: {formula_text(body, inner)}"


def _joined(word: str, parts: Iterator[Formula], elements: Elements) -> str:
    return word.join(_within(part, elements, _Binding.CLOSED) for part in parts)


def _conjuncts(formula: Formula) -> Iterator[Formula]:
    """The parts of nested conjunctions: `a & b & c` is two nodes, but three parts."""
    if isinstance(formula, And) and formula.parts:
        for part in formula.parts:
            yield from _conjuncts(part)
    else:
        yield formula


def _disjuncts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, Or) and formula.parts and _among(formula, VARIABLES) is None:
        for part in formula.parts:
            yield from _disjuncts(part)
    else:
        yield formula


def _within(formula: Formula, elements: Elements, least: _Binding) -> str:
    """The text, in parentheses if it binds more weakly than `least`."""
    text, binding = _text(formula, elements)
    return _bracketed(text, binding < least)


def _bracketed(text: str, loose: bool) -> str:
    return f"({text})" if loose else text


def _related(left: Sort, word: str, right: Sort, elements: Elements) -> str:
    return f"{_argument(left, elements)} {word} {_argument(right, elements)}"


def _cell(atom: Atom, elements: Elements) -> str:
    if isinstance(atom, Sent):
        return sent_text(atom, elements)
    return _applied(atom.symbol, atom.arguments, elements)


def _reading(of: Atom | Update, elements: Elements) -> tuple[str, str]:
    """The texts of the cell and of its value."""
    arguments, value = of.symbol.reading(of.arguments, of.value)
    return _applied(of.symbol, arguments, elements), _value_text(value, elements)


def _about_element(formula: Forall | Exists, elements: Elements) -> str | None:
    """`last(s) = unset`, `last(s) before t` and the like, for a formula about some value."""

    def is_value(atom: Atom) -> bool:
        """Whether the atom says that a function into a sort has the bound variable as its value."""
        return isinstance(atom.symbol, ElementFunction) and atom.arguments[-1] == value and (
            value not in atom.arguments[:-1])

    value = formula.variable
    inner = {v: i for v, i in elements.items() if v != value}
    match formula:
        case Forall(_, Not(Atom() as atom)) if is_value(atom):
            return f"{_reading(atom, inner)[0]} = {UNSET}"
        case Exists(_, Atom() as atom) if is_value(atom):
            return f"{_reading(atom, inner)[0]} != {UNSET}"
        case Exists(_, And((Atom() as atom, Before(left, right)))) if is_value(atom):
            sides = (_reading(atom, inner)[0] if side == value else _argument(side, inner)
                     for side in (left, right))
            return " before ".join(sides) if value in (left, right) else None
        case Exists(_, And((Atom() as atom, Atom() as other))) if (
            is_value(atom) and is_value(other)
        ):
            return f"{_reading(atom, inner)[0]} = {_reading(other, inner)[0]}"
    return None


def claim_text(claim: LeadsTo | Refines) -> str:
    """A claim about runs as text."""
    if isinstance(claim, Refines):
        return f"each step is one of {claim.abstract.name}, or changes nothing of it"
    return f"{formula_text(claim.premise)} leads to {formula_text(claim.goal)}"


def _called(name: str, parameters: tuple[Sort, ...], elements: Elements) -> str:
    return f"{name}({_arguments(parameters, elements)})" if parameters else name


def _applied(symbol: Symbol, arguments: tuple[Sort, ...], elements: Elements) -> str:
    return f"{symbol.name}({_arguments(arguments, elements)})" if arguments else symbol.name


def _arguments(arguments: tuple[Sort, ...], elements: Elements) -> str:
    return ", ".join(_argument(argument, elements) for argument in arguments)


def _argument(argument: Sort, elements: Elements) -> str:
    if argument is ANY:
        return "any"
    if argument in elements:
        return type(argument).element(elements[argument])
    return repr(argument)
