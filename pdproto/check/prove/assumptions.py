"""The text of a proof: everything that it assumes, for those who read only its result."""

from collections.abc import Mapping, Sequence
from typing import Final

from pdproto.check.words import assumption_texts, formula_text
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.system import System

LEMMAS_MAX: Final = 3  # more of them are only counted


def in_words(
    system: System,
    *,
    lemmas: Sequence[str] = (),
    where: Sequence[Fairness] = (),
    without: Sequence[str] = (),
    assumed: Mapping[str, Formula] | None = None,
) -> str:
    """The text of a proof, with all its assumptions.

    lemmas: the names of those that it uses. where: the assumptions of fairness, of which one
    suffices. without: layers of faults that do not happen. assumed: formulas in addition to the
    axioms.
    """
    text = "proved for every size from 1 on"
    if lemmas:
        several = len(lemmas) > LEMMAS_MAX
        text += f" with {f'{len(lemmas)} lemmas' if several else ', '.join(lemmas)}"
    if where:
        text += f", where {' or '.join(assumption_texts(system, where))}"
    if without:
        text += f", in runs without {' and '.join(without)} faults"
    every = {**system.axioms, **(assumed or {})}
    if every:
        said = "; ".join(f"{name}: {formula_text(formula)}" for name, formula in every.items())
        text += f", assuming {said}"
    return text
