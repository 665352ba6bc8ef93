"""The proved properties of optimistic prefill as lemmas, for variants that check only promises."""

from typing import Final

from pdproto.spec.handoff.optimistic import SAFETY
from pdproto.spec.language import Always
from pdproto.spec.lemmas import optimistic_lemmas

LEMMAS: Final = (
    *(claim for claim in SAFETY if isinstance(claim, Always)), *optimistic_lemmas.LEMMAS,
)
