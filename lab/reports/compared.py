"""The answers of several checkers to the same questions, for a terminal and as a Markdown page."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from lab.compare import Compared
from pdproto.spec.language.system import DEFAULT

NO_ANSWER: Final = "no answer"
HEADINGS: Final = ("system", "checker", "states", "seconds", "refutes")


def heading(width: int) -> str:
    """The titles of the columns. width: of the longest `title` of a system."""
    return _line(*HEADINGS, width)


def lines(one: Compared, width: int) -> Iterator[str]:
    """What each checker says of one system, and where two differ."""
    name = title(one.system, one.configuration)
    for opinion in one.opinions:
        refutes = ", ".join(sorted(opinion.violated)) or "nothing"
        yield _line(name, opinion.checker, f"{opinion.states:,}", f"{opinion.seconds:.2f}",
                    refutes, width)
        name = ""
    for checker in one.missing:
        yield _line(name, checker, "", "", NO_ANSWER, width)
        name = ""
    for difference in one.differences:
        yield f"{one.system}: {difference}"


def title(system: str, configuration: str) -> str:
    """The name of a system, with that of its configuration where it is not the default one."""
    return system if configuration == DEFAULT else f"{system} {configuration}"


def reasons(told: Sequence[Compared]) -> Iterator[str]:
    """Why checkers gave no answer, each reason once."""
    yield from dict.fromkeys(reason for one in told for reason in one.missing.values())


def page(told: Sequence[Compared], checkers: Sequence[str], command: str) -> str:
    """A row for each system: its states, the properties that are refuted, seconds by checker.

    A checker that differs, or gave no answer, has that word in place of its seconds. command: the
    one that writes the page again.
    """
    differ = sum(bool(one.differences) for one in told)
    silent = sum(bool(one.missing) for one in told)
    verdict = f"{differ or 'no'} of {len(told)} systems with a difference"
    if silent:
        verdict += f", {silent} without the answer of a checker"
    found = ["# The same questions to several checkers", "",
             "Each row is a system. A checker with a time in it finds this number of states and "
             "refutes these properties.",
             "The times are seconds by the clock, with the start of the checker.", "",
             f"    {command}", "",
             f"{datetime.now(UTC):%Y-%m-%d}: {verdict}.", "",
             "| " + " | ".join(("system", "states", "refutes", *checkers)) + " |",
             "|---|--:|---|" + "--:|" * len(checkers)]
    found += [_row(one, checkers) for one in told]
    found += ["", *(f"* {one.system}: {text}" for one in told for text in one.differences),
              *(f"* {reason}" for reason in reasons(told))]
    return "\n".join(found).rstrip() + "\n"


def _row(one: Compared, checkers: Sequence[str]) -> str:
    first = one.opinions[0]
    cells = {opinion.checker: f"{opinion.seconds:.1f}" for opinion in one.opinions}
    cells |= dict.fromkeys(one.missing, NO_ANSWER)
    cells |= dict.fromkeys(one.differing, "differs")
    refuted = ", ".join(f"`{name}`" for name in sorted(first.violated or ()))
    return "| " + " | ".join((
        title(one.system, one.configuration), f"{first.states:,}", refuted or "nothing",
        *(cells[checker] for checker in checkers))) + " |"


def _line(name: str, checker: str, states: str, seconds: str, refutes: str, width: int) -> str:
    return f"{name:{width}}  {checker:8}  {states:>9}  {seconds:>8}  {refutes}".rstrip()
