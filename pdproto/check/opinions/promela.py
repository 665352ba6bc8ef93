"""The ground form in Promela, so that SPIN can check the same questions.

There is one process. Each cell is a global variable, and each ground row a guarded `d_step`. After
each step the process is back at its only control state, so SPIN stores exactly our states. SPIN
counts one transition (stored and matched) more than we do, because it counts one to the first
state.

The first lines of the model say how to run it. -DNOREDUCE is necessary, because partial order
reduction would leave states out; -DHC4 loses states without a message. States of more than 1,024
bytes need -DVECTORSZ=N. The bad patterns of the system's questions are assertions. SPIN cannot
detect our deadlocks, because a row that changes nothing keeps it busy; so every state of the model
is a valid end. Liveness and reductions are not exported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pdproto.check.questions import Question, questions
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import Field, cell_name, value_name
from pdproto.ground.program import Action, Guard, Literal

# Words of Promela, of C and of SPIN's verifier, where a variable becomes a field of a C struct. The
# verifier also defines names in capitals; ours never clash with them, because they begin small.
_WORDS: Final = """
active assert atomic bit bool break byte c_code c_decl c_expr c_state c_track chan d_step do else
empty enabled end eval false fi for full get_priority goto hidden if in init inline int len local
ltl mtype nempty never nfull np_ notrace od of pc_value pid print printf printm priority proctype
provided return run select set_priority short show skip timeout trace true typedef unless unsigned
xr xs
auto case char const continue default double enum extern float long register restrict signed sizeof
static struct switch union void volatile while
maxseq0 minseq0 rand system uchar uint ulong ushort wasnew
"""
RESERVED: Final = frozenset(_WORDS.split())


def promela(ground: Ground) -> str:
    """The model. Its text depends on the system, the sizes and the faults alone."""
    names = _names(ground)
    lines = [*_head(ground), *_declarations(ground, names), "", "active proctype system() {"]
    lines += ["end:", "    do"]
    for row in ground.rows:
        lines.append(_option(row.action, names, str(row)))
    for question in questions(ground):
        if question.bad and question.patterns:
            lines += _assertion(question, names)
    lines += _reads(names, "\n".join(lines))
    lines += ["    od", "}", ""]
    return "\n".join(lines)


def _reads(names: Mapping[Field, str], model: str) -> Iterator[str]:
    """A step that is never taken, and reads every variable that no other step compares.

    Without it SPIN would leave these variables out of the state.
    """
    read = set(re.findall(r"\b(\w+) ==", model))
    unread = [name for name in names.values() if name not in read]
    if unread:
        yield "    /* keeps variables that no other step reads in the state */"
        yield f"    :: d_step {{ (false && ({' || '.join(unread)})) -> skip }}"


def _head(ground: Ground) -> Iterator[str]:
    sizes = ", ".join(f"{sort.__name__}={size}" for sort, size in ground.sizes.items())
    faults = f" with {', '.join(ground.faults)}" if ground.faults else ""
    yield f"/* {_plain(ground.system.name)}, {sizes}{faults}: exported by pdproto."
    yield " *"
    yield " * spin -a FILE && gcc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000"
    yield " */"
    yield ""


def _declarations(ground: Ground, names: Mapping[Field, str]) -> Iterator[str]:
    described = None
    for (symbol, _), field in ground.layout.fields.items():
        if symbol is not described and field.width > 1:
            codes = ", ".join(f"{i} {value_name(v)}" for i, v in enumerate(symbol.values))
            yield f"/* {symbol.name}: {_plain(codes)} */"
        described = symbol
        name = names[field]
        yield f"bit {name};" if field.width == 1 else f"unsigned {name} : {field.width};"


def _names(ground: Ground) -> dict[Field, str]:
    """A name for every cell: `vote(p0)` is vote_p0. A duplicate gets underscores."""
    taken = set(RESERVED)
    names = {}
    for cell, field in ground.layout.fields.items():
        name = re.sub(r"\W+", "_", cell_name(*cell), flags=re.ASCII).strip("_") or "cell"
        if not name[0].islower():
            name = f"c_{name}"
        while name in taken:
            name += "_"
        taken.add(name)
        names[field] = name
    return names


def _option(action: Action, names: Mapping[Field, str], comment: str) -> str:
    effects = [
        f"{name} = {(action.assign & field.mask) >> field.offset}"
        for field, name in names.items()
        if action.clear & field.mask
    ]
    body = "; ".join(effects or ["skip"])
    return f"    :: d_step {{ {_guard(action.guard, names)} -> {body} }} /* {_plain(comment)} */"


def _assertion(question: Question, names: Mapping[Field, str]) -> Iterator[str]:
    """One option for each question, so that the last step of SPIN's trail names the question."""
    bad = " ||\n               ".join(_guard(p.guard, names) for p in question.patterns)
    yield f"    /* {_plain(question.name)}: {_plain(question.claim)} */"
    yield f"    :: d_step {{ ({bad}) -> assert(false) }}"


def _guard(guard: Guard, names: Mapping[Field, str]) -> str:
    parts = _cube(guard.mask, guard.value, names)
    for clause in guard.clauses:
        parts.append(_joined([_literal(literal, names) for literal in clause], "||", "false"))
    return _joined(parts, "&&", "true")


def _literal(literal: Literal, names: Mapping[Field, str]) -> str:
    return _joined(_cube(literal.mask, literal.value, names), "&&", "true")


def _cube(mask: int, value: int, names: Mapping[Field, str]) -> list[str]:
    """A test for each cell under the mask, which consists of whole cells."""
    return [
        f"{name} == {(value & field.mask) >> field.offset}"
        for field, name in names.items()
        if mask & field.mask
    ]


def _joined(parts: Sequence[str], operator: str, neutral: str) -> str:
    if not parts:
        return f"({neutral})"
    return f"({f' {operator} '.join(parts)})"


def _plain(text: str) -> str:
    """Text without the marks that begin or end a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")
