"""The arithmetic of a study, and its table: measured figures beside simulated ones."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.sim.study import MS, Arm, Ways
from lab.study.lanes import Measured, Ran
from lab.study.plan import Cell, arm


class StudyError(Exception):
    """Requests failed, so their times are not comparable."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A setting, simulated and measured. late_s: the longest delay of a process with its own work,
    which shows how much this machine disturbs.
    """

    cell: Cell
    simulated: Ways
    measured: Ways
    late_s: float


def row(cell: Cell, simulated: tuple[Arm, Arm], measured: Measured, count: int) -> StudyRow:
    """Join both halves. Raises StudyError unless every request has a right answer."""
    both = measured.without, measured.with_it
    for ran in both:
        require_all(cell, ran, count)
    ways = Ways(*(arm(list(ran.answered.first_token_s.values()), ran.computed.reruns)
                  for ran in both))
    return StudyRow(cell, Ways(*simulated), ways, measured.late_s)


def require_all(cell: Cell, ran: Ran, count: int) -> None:
    """Raise StudyError unless every request has an answer, with the right bytes."""
    where = f"{cell.varied} {cell.value}"
    reasons: Mapping[int, str] = {**ran.computed.reasons, **ran.answered.reasons}
    for room, why in reasons.items():
        raise StudyError(f"{where}: request {room} has failed: {why}")
    if ran.answered.corrupt:
        raise StudyError(f"{where}: request {ran.answered.corrupt[0]}: its pages hold other bytes "
                         f"than were sent")
    if len(ran.answered.first_token_s) != count:
        raise StudyError(f"{where}: {len(ran.answered.first_token_s)} of {count} requests have "
                         f"been answered")


def as_markdown(rows: Iterable[StudyRow]) -> str:
    """A table, in milliseconds; two lines for each setting. late: see StudyRow."""
    lines = ["| varied | value | half | median without | with | change | P99 without | with "
             "| change | passes run again | late |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for of in rows:
        late = f"{of.late_s / MS:.1f}"
        for half, ways, told in (("simulator", of.simulated, ""), ("processes", of.measured, late)):
            off, on = ways.without, ways.optimistic
            lines.append(
                f"| {of.cell.varied} | {of.cell.value} | {half} | {off.median_s / MS:.0f} | "
                f"{on.median_s / MS:.0f} | {ways.median_change:+.0%} | {off.p99_s / MS:.0f} | "
                f"{on.p99_s / MS:.0f} | {ways.p99_change:+.0%} | {on.reruns:.2f} | {told} |")
    return "\n".join(lines) + "\n"


def as_json(rows: Iterable[StudyRow], seed: int, count: int) -> dict[str, Any]:
    """All figures, for machines."""
    return {"seed": seed, "requests": count, "rows": [asdict(of) for of in rows]}
