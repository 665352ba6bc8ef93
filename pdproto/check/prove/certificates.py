"""Certificates: every obligation in the languages of other solvers, as a check of our engines.

For each proved obligation, `unsat` is the right answer to both files. The propositional one
(DIMACS) is the formula of the cut-off; its comments name the obligation. The other (SMT-LIB 2) has
quantifiers and no bound.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pdproto.check.prove.cutoff import ground
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.quantified import Theory, question
from pdproto.spec.language.system import System


@dataclass(frozen=True, slots=True)
class Certificate:
    """A file: its name without the folder, and its text."""

    name: str
    text: str


def certificates(system: System, obligation: Obligation) -> Iterator[Certificate]:
    """The obligation as DIMACS and as SMT-LIB 2."""
    stem = re.sub(r"\W+", "-", f"{obligation.claim.name}-{obligation.scope}")
    told = f"{system.name}: {obligation.name}; met if and only if unsatisfiable"
    yield Certificate(f"{stem}.cnf", f"c {told}\n{dimacs(system, obligation)}")
    yield Certificate(f"{stem}.smt2", f"; {told}\n{smt(system, obligation)}")


def dimacs(system: System, obligation: Obligation) -> str:
    """The propositional formula of the cut-off, in DIMACS."""
    grounded = ground(system, [obligation], weakened=True)
    for selector in grounded.selectors:
        grounded.clauses.add(selector)
    return grounded.clauses.dimacs


def smt(system: System, obligation: Obligation) -> str:
    """The quantified formula, in SMT-LIB 2."""
    text: str = question(Theory(system), [obligation]).to_smt2()
    body = "\n".join(line for line in text.splitlines() if not line.startswith(";"))
    return f"(set-logic ALL)\n{body}\n"
