"""Checks rows against declarations: edges, carried relations, device variables.

The row's own guard must keep the declaration, for all values of other cells. This is stricter than
the explorer, which checks reachable states only, and it holds at every size.
"""

from collections.abc import Iterator

from pdproto.check.lint.remark import Remark, Severity
from pdproto.check.lint.subject import LintSubject
from pdproto.check.questions import forbidden_moves, questions
from pdproto.ground.layout import value_name
from pdproto.spec.language.symbols import Message, Variable
from pdproto.spec.language.system import System


def edges(subject: LintSubject) -> Iterator[Remark]:
    """Rows whose guard does not exclude a move that the variable's declared edges forbid."""
    found: set[tuple[str, Variable]] = set()
    for variable in subject.system.bounded_variables():
        for _, row in subject.live_rows:
            for guard, move in forbidden_moves(subject.ground, row, variable):
                solution = subject.in_known_states(
                    subject.reachable, subject.cells.holds(guard)
                )
                if solution is not None and (row.row.name, variable) not in found:
                    found.add((row.row.name, variable))
                    problem = f"{row.row.name} does not exclude that {move}"
                    witness = subject.witness(solution, subject.reachable)
                    yield Remark("edges", Severity.ERROR, problem, row.row.place, witness)


def attachments(subject: LintSubject) -> Iterator[Remark]:
    """Messages with a row that may change their carried relations after they are sent.

    One remark for each message: the same sent bit is missing in every guard.
    """
    carriers = {
        f"{symbol.name}_carries"
        for symbol in subject.system.variables
        if isinstance(symbol, Message) and symbol.carries
    }
    for question in questions(subject.ground) if carriers else ():
        for pattern in question.patterns if question.name in carriers else ():
            solution = subject.solve(subject.reachable, subject.cells.holds(pattern.guard))
            if solution is not None:
                problem = f"no guard excludes that {pattern.instance}"
                witness = subject.witness(solution, subject.reachable)
                yield Remark("carries", Severity.WARNING, problem, question.place, witness)
                break


def devices(system: System) -> Iterator[Remark]:
    """Values that only the engine may write, and that no row of the engine writes."""
    for variable in system.variables:
        if not isinstance(variable, Variable) or variable.engine is None:
            continue
        written = {
            update.value
            for table, row in system.rows()
            if table.machine is variable.engine
            for update in table.updates(row)
            if update.symbol is variable
        }
        for value in variable.engine_writes:
            if value not in written:
                problem = f"{variable.engine} never writes {variable} := {value_name(value)}"
                yield Remark("device", Severity.WARNING, problem, variable.place)
