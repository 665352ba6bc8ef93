"""Rankings in a system with ordered channels: which of them say something about the tables.

The proof of ranking.py is read by the rules of places.py, by which no message moves up. A fair run
of the tables is one by these rules too (places.py), with the same values outside the channels. What
is left to show is that the claim and its helpers mean the same in both:

* The premise, if it holds in the tables, holds here, and the goal, if it holds here, holds in the
  tables: by the form of a claim (`ProofRows.obstacle`), if no place is a free variable.
* A helper that stays enabled here is one that stays enabled in the tables, so it fires. This is so
  if it sends nothing into a channel: a full channel blocks its sender in the tables alone, so
  *whether it can fire depends on the number of places*, which no proof for every size knows. The
  front of a channel has the same message in both, so a helper may take one.
* The rank rises finitely often: a message in a channel does not count (settling.py), and neither
  does a predicate for each place, because a run by these rules uses new places for ever.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.prove.places import ProofRows
from pdproto.spec.language.channels import channel_of
from pdproto.spec.language.formula import Formula, Not, all_of, free_variables
from pdproto.spec.language.machine import Row
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.ranking import Monotone, Ranking
from pdproto.spec.language.symbols import Message, sent_by

EXPLORE: Final = "explore it with `pdproto check`"


def _require_provable(
    places: ProofRows, monotone: Sequence[Monotone], rankings: Sequence[Ranking]
) -> None:
    """Raise SpecError for a ranking that depends on the number of places of a channel."""
    for predicate in monotone:
        if _has_free_place(places, predicate.claim):
            raise SpecError(predicate.place, f"the monotone predicate {predicate.name} is about "
                            "each place of a channel, of which a run has any number")
    for ranking in rankings:
        for reason in _obstacles(places, ranking):
            raise SpecError(ranking.place, f"{ranking.leads_to}: {reason}; {EXPLORE}")


def _obstacles(places: ProofRows, ranking: Ranking) -> Iterator[str]:
    yield from _of_symbols(places)
    for claim in places.system.properties:
        if isinstance(claim, LeadsTo) and claim.name == ranking.leads_to:
            found = (places.obstacle(formula) for formula in (Not(claim.premise), claim.goal))
            yield from filter(None, found)
            yield from _of_free_places(places, "it", all_of(claim.premise, claim.goal))
    if ranking.pending is not None:
        yield from _of_free_places(places, "pending=", ranking.pending)
    for name, formula in ranking.assumed.items():
        if places.is_about_places(formula):
            yield f"the assumption {name} is about the places of a channel"
    helpers = {help_.row for help_ in ranking.helpers}
    for table in places.system.tables:
        for row in table.rows:
            if row.name in helpers:
                yield from _of_helper(places, row)


def _of_symbols(places: ProofRows) -> Iterator[str]:
    for symbol in (*places.system.variables, *places.system.rigids):
        if not isinstance(symbol, Message) or symbol.fifo is None:
            for sort in places.sorts.intersection(symbol.sorts):
                yield (f"{symbol.signature} has places of a channel as its elements: give it a "
                       f"sort of its own instead of {sort.__name__}")


def _of_helper(places: ProofRows, row: Row) -> Iterator[str]:
    for effect in row.send:
        message = sent_by(effect).message
        if channel_of(message) is not None:
            yield (f"its helper {row.name!r} sends {message.name} into a channel, so whether it "
                   "can fire depends on the number of places there")
    if any(map(places.is_about_places, row.conditions)):
        yield f"the conditions of its helper {row.name!r} are about places of a channel"


def _of_free_places(places: ProofRows, what: str, formula: Formula) -> Iterator[str]:
    if _has_free_place(places, formula):
        yield f"{what} is about one place of a channel, from which messages move up"


def _has_free_place(places: ProofRows, formula: Formula) -> bool:
    return any(type(variable) in places.sorts for variable in free_variables(formula))


def in_places(
    places: ProofRows, monotone: Sequence[Monotone], rankings: Sequence[Ranking]
) -> tuple[tuple[Monotone, ...], tuple[Ranking, ...]]:
    """The predicates and rankings by the rules of places.py.

    Raises SpecError for one that depends on the number of places of a channel.
    """
    if not places.channels:
        return tuple(monotone), tuple(rankings)
    _require_provable(places, monotone, rankings)
    claimed = places.claimed
    return (
        tuple(replace(one, claim=claimed(one.claim)) for one in monotone),
        tuple(replace(
            one, pending=None if one.pending is None else claimed(one.pending),
            helpers=tuple(replace(help_, when=claimed(help_.when)) for help_ in one.helpers),
            witnesses=tuple(replace(w, claim=claimed(w.claim)) for w in one.witnesses),
        ) for one in rankings),
    )
