"""A second solver for the cut-off: cvc5 answers every propositional question again.

    python -m tests.prove.second_solver               # all obligations of the hand-over
    python -m tests.prove.second_solver registry      # those of one system

What it is given are the certificates that `pdproto prove --export` writes (DIMACS). Obligations of
one row are asked about together first: if none of them can be violated, each is met. All are asked
about: that claims are kept, that each trigger has one answer, and what the rankings rest on. Exit
status: 0 if every obligation is confirmed, 1 if one is not.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import cvc5

from pdproto.check.prove.certificates import dimacs
from pdproto.check.prove.cutoff import ground
from pdproto.check.prove.obligations import Obligation
from pdproto.cli.prove import RUN_BY_PROCESSES, subject
from pdproto.spec.language.system import System

LIMIT_MS: Final = 60_000  # for one question


def refuted(text: str) -> bool:
    """Whether cvc5 finds that the clauses of a DIMACS file cannot be satisfied."""
    manager = cvc5.TermManager()
    solver = cvc5.Solver(manager)
    solver.setLogic("QF_UF")
    solver.setOption("tlimit-per", str(LIMIT_MS))
    header, *lines = (line for line in text.splitlines() if not line.startswith("c"))
    literals: dict[int, Any] = {}
    for number in range(1, int(header.split()[2]) + 1):
        variable = manager.mkConst(manager.getBooleanSort(), f"v{number}")
        literals[number] = variable
        literals[-number] = manager.mkTerm(cvc5.Kind.NOT, variable)
    for line in lines:
        clause = [literals[number] for number in dict.fromkeys(map(int, line.split()[:-1]))]
        # An empty disjunction is no term: no assignment satisfies it.
        alone = clause[0] if clause else manager.mkFalse()
        solver.assertFormula(
            manager.mkTerm(cvc5.Kind.OR, *clause) if len(clause) > 1 else alone
        )
    return bool(solver.checkSat().isUnsat())


def unconfirmed(system: System, obligations: Iterable[Obligation]) -> Iterator[Obligation]:
    """The obligations of which cvc5 does not find that they are met."""
    groups: dict[tuple[str, int], list[Obligation]] = {}
    for obligation in obligations:
        key = obligation.scope, id(obligation.sequent.assumed)
        groups.setdefault(key, []).append(obligation)
    for group in groups.values():
        if not refuted(_together(system, group)):
            yield from (o for o in group if not refuted(dimacs(system, o)))


def _together(system: System, group: Sequence[Obligation]) -> str:
    """The clauses of obligations of one row: at least one of them is violated."""
    grounded = ground(system, group, weakened=False)
    grounded.clauses.add(*grounded.selectors)
    return grounded.clauses.dimacs


def main(names: Sequence[str]) -> int:
    """Ask about every obligation of these systems, and print the result."""
    status = 0
    for name in names or RUN_BY_PROCESSES:
        one = subject(name)
        found = one.obligations()
        missing = list(unconfirmed(one.system, found))
        count = len(found)
        print(f"{name}: cvc5 confirms {count - len(missing)} of {count} obligations")  # noqa: T201
        for obligation in missing:
            print(f"  not {obligation.name}")  # noqa: T201
        status = max(status, int(bool(missing)))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
