"""The names of an exported TLA+ module."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pdproto.spec.language.sorts import Sort

Scope: TypeAlias = Mapping[Sort, str]  # the name of each variable of ours that is bound here

# The words of TLA+ are in capitals, as the names of enum members never are; sorts may be.
_WORDS: Final = """
ACTION ASSUME ASSUMPTION AXIOM BY CASE CHOOSE CONSTANT CONSTANTS COROLLARY DEF DEFINE DEFS DOMAIN
ELSE ENABLED EXCEPT EXTENDS HAVE HIDE IF IN INSTANCE LAMBDA LEMMA LET LOCAL MODULE NEW OBVIOUS
OMITTED ONLY OTHER PICK PROOF PROPOSITION PROVE QED RECURSIVE SF_ STATE STRONG SUBSET SUFFICES TAKE
TEMPORAL THEN THEOREM UNCHANGED UNION USE VARIABLE VARIABLES WEAK WF_ WITH WITNESS
TRUE FALSE BOOLEAN STRING Nat Any Permutations Print PrintT SortSeq TLCEval TLCExt TLCGet TLCSet
ToString JavaTime Assert RandomElement
"""
RESERVED: Final = frozenset(_WORDS.split())


class Names:
    """The names of a module: each is given once, because TLA+ hides no name behind another."""

    def __init__(self, own: Iterable[str]) -> None:
        """own: names that the module has by itself."""
        self._taken = {*RESERVED, *own}
        self._given: dict[object, str] = {}

    def declare(self, key: object, wanted: str) -> str:
        """A name for the key: what is wanted, with underscores behind it if that is taken."""
        name = _free(re.sub(r"\W", "_", wanted, flags=re.ASCII), self._taken)
        self._taken.add(name)
        self._given[key] = name
        return name

    def within(self, kept: Iterable[object]) -> "Names":
        """Further names for other keys, and the same ones for those that are kept."""
        inner = Names(())
        inner._given, inner._taken = {key: self._given[key] for key in kept}, self._taken
        return inner

    def __getitem__(self, key: object) -> str:
        return self._given[key]

    def bind(self, scope: Scope, variables: Iterable[Sort]) -> Scope:
        """The scope with the variables in it, each under a name that nothing else has there."""
        inner = dict(scope)
        for variable in variables:
            others = {name for bound, name in inner.items() if bound != variable}
            # Bound once more inside its own scope, it needs another name, too.
            others |= {scope[variable]} if variable in scope else set()
            inner[variable] = _free(variable.name, self._taken | others)
        return inner


def _free(wanted: str, taken: set[str]) -> str:
    name = f"n_{wanted}" if wanted.startswith(("WF_", "SF_")) else wanted
    while name in taken:
        name += "_"
    return name
