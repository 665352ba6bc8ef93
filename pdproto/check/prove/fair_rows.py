"""Which rows fire under an assumption of fairness, and under which assumptions a ranking proves."""

from collections.abc import Iterable

from pdproto.spec.language.machine import Row, Timer
from pdproto.spec.language.properties import Fairness, LeadsTo


def proved_under(claim: LeadsTo) -> tuple[Fairness, ...]:
    """The assumptions under which a ranking can prove the claim.

    Fairness.CONSUMED is not among them: there delivery takes a message off the network, so a symbol
    goes back.
    """
    return tuple(fairness for fairness in claim.under if fairness is not Fairness.CONSUMED)


def fires(row: Row, fairness: Fairness) -> bool:
    """Whether a row of the protocol must fire under the assumption if it stays enabled."""
    match row.on:
        case Timer(detector=detector):
            spared = {Fairness.NO_TIMERS: True, Fairness.DETECTORS: not detector}
            return row.is_fair and not spared.get(fairness, False)
        case _:
            return row.is_fair


def strong_rows(rows: Iterable[Row]) -> str:
    """What a proof cannot use of strongly fair rows, and what to write instead; "" without any."""
    strong = dict.fromkeys(f"row {row.name!r} at {row.place}" for row in rows if row.is_strong)
    return "" if not strong else (
        f"; strong fairness of {', '.join(strong)} helps only where some helper can fire in each "
        "state: add one that can fire in the others and raises the rank, or take the ranking away: "
        "`pdproto check` explores the claim")
