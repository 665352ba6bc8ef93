"""Arrange the race of a defect on running nodes, and say what was seen."""

from collections import Counter
from dataclasses import dataclass

from lab.race.counterexample import Counterexample
from lab.race.stage import CannotArrangeError, Seen, Stage
from pdproto.check.result import PropertyKind


@dataclass(frozen=True, slots=True)
class Conducted:
    """The end of one race. seen: the promises that the nodes broke. obstacles: the rows of the
    counterexample that the nodes did not take, each with the reason.
    """

    seen: tuple[Seen, ...]
    obstacles: tuple[str, ...]


def conduct(example: Counterexample, stage: Stage) -> Conducted:
    """Have the events of the counterexample happen in its order, and let all come to rest.

    An event that the nodes do not have is left out: the race goes on without it.
    """
    obstacles: list[str] = []
    needed = Counter[str]()
    for number, row in enumerate(example.rows, 1):
        before = stage.fired[row.row.name]
        try:
            stage.cause(row)
        except CannotArrangeError as error:
            obstacles.append(f"step {number}, {row}: {error}")
        else:
            needed[row.row.name] += stage.tells(row)
            if stage.fired[row.row.name] < needed[row.row.name]:
                obstacles.append(f"step {number}, {row}: no node takes it")
                needed[row.row.name] = stage.fired[row.row.name]
        if (row is example.forbidden and not stage.checks_rows and not stage.seen
                and example.finding.kind is PropertyKind.ALWAYS
                and stage.fired[row.row.name] > before):
            stage.blame(example.bug.violates, f"{row} was taken")
        if example.bug.violates in {seen.promise for seen in stage.seen}:
            break
    if not stage.seen or example.finding.kind is PropertyKind.LEADS_TO:
        stage.rest()
    first: dict[str, Seen] = {}
    for seen in stage.seen:
        first.setdefault(seen.promise, seen)
    ordered = sorted(first.values(), key=lambda seen: seen.promise != example.bug.violates)
    return Conducted(tuple(ordered), tuple(obstacles))
