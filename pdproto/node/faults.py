"""Hand-overs that a node fails on purpose, because its operator tests the rest of the system.

Faults are written as `bootstrap=0.1,transfer=0.02`: probabilities from 0 to 1 by name. A fault that
is not named is 0, and an empty text ends all faults. Settings, command lines and the operator's
port share this form.

A fault is a call to abort, which the tables allow at any time. So the hand-over fails as if its own
server had ended it.
"""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

BOOTSTRAP: Final = "bootstrap"
TRANSFER: Final = "transfer"
# Each fault, and the moment at which it is drawn, once for each hand-over.
FAULTS: Final[Mapping[str, str]] = {
    BOOTSTRAP: "at prefill, when every sink has published its pages; at decode, when the request "
               "is opened",
    TRANSFER: "at prefill, when the first chunk is handed over; at decode, when the pages are "
              "published",
}
INJECTED: Final = "a fault injected for a test"  # the beginning of the reason
FORM: Final = "want name=probability with commas between, such as bootstrap=0.1,transfer=0.02"


class FaultsError(ValueError):
    """A text that sets no faults. The message is one line that names the mistake."""


def parse(text: str) -> Mapping[str, float]:
    """The probability of every fault, by its name. Raises FaultsError."""
    found: dict[str, float] = {}
    for part in text.split(",") if text.strip() else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise FaultsError(f"{part[:40]!r}: {FORM}")
        if name not in FAULTS:
            raise FaultsError(f"there is no fault {name[:40]!r}: want {' or '.join(FAULTS)}")
        if name in found:
            raise FaultsError(f"{name} is set twice: want it once")
        found[name] = _probability(name, value)
    return MappingProxyType(dict.fromkeys(FAULTS, 0.0) | found)


def _probability(name: str, value: str) -> float:
    try:
        probability = float(value)
    except ValueError:
        probability = -1.0
    if not 0.0 <= probability <= 1.0:  # NaN is not, either
        raise FaultsError(f"{name}={value[:40]}: want a probability from 0 to 1")
    return probability


def reason_of(name: str) -> str:
    """The reason of a hand-over that the fault of this name has failed."""
    return f"{INJECTED}: {name}"


class Faults:
    """The faults of one node; none at first. Any thread may set them at any time.

    chance: returns a number from 0 to 1, without 1, as `random.random`.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance: Final = chance
        self._probabilities = parse("")

    def set(self, text: str) -> None:
        """Replace all faults by those of the text. Raises FaultsError, and changes nothing then."""
        self._probabilities = parse(text)

    def probability(self, name: str) -> float:
        """The probability of the fault of this name."""
        return self._probabilities[name]

    def strikes(self, name: str) -> bool:
        """Draw whether the fault of this name strikes now."""
        probability = self._probabilities[name]
        return probability > 0.0 and self._chance() < probability

    def __str__(self) -> str:
        """The faults in force, in the form that `set` takes."""
        return ",".join(f"{name}={value:g}" for name, value in self._probabilities.items())
