"""Certificates: every obligation in the languages of other solvers, as a check of our engines.

For each proved obligation, `unsat` is the right answer to both files. The propositional one
(DIMACS) is the formula of the cut-off; its comments name the obligation. The other (SMT-LIB 2) has
quantifiers and no bound.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pdproto.check.prove.cutoff import ground
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.quantified import Theory, question
from pdproto.spec.language.system import System

MET: Final = "met if and only if unsatisfiable"  # ends the first line of each file
ENDINGS: Final = (".cnf", ".smt2")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A file: its name without the folder, and its text."""

    name: str
    text: str


def certificates(system: System, obligations: Iterable[Obligation]) -> Iterator[Certificate]:
    """Each obligation as DIMACS and as SMT-LIB 2. Names are numbered where several would be one."""
    times: Counter[str] = Counter()
    for one in obligations:
        stem = re.sub(r"\W+", "-", f"{one.claim.name}-{one.scope}")
        times[stem] += 1
        name = stem if times[stem] == 1 else f"{stem}.{times[stem]}"
        told = f"{system.name}: {one.name}; {MET}"
        yield Certificate(f"{name}.cnf", f"c {told}\n{dimacs(system, one)}")
        yield Certificate(f"{name}.smt2", f"; {told}\n{smt(system, one)}")


def is_certificate(path: Path) -> bool:
    """Whether the file has been written as a certificate."""
    if path.suffix not in ENDINGS or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\n").endswith(f"; {MET}")


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
