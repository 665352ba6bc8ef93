"""Hand-overs that a node fails on purpose, because its operator tests the rest of the system.

Faults are written as `bootstrap=0.1,transfer=0.02`: probabilities from 0 to 1 by name. A fault that
is not named is 0, and an empty text ends all faults. Settings, command lines and the operator's
port share this form.

A fault is a call to abort, which the tables allow at any time. So the hand-over fails as if its own
server had ended it.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import ENDED
from pdproto.node.part import Part, Turn
from pdproto.runtime.endpoint import Endpoint

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


class Injection:
    """faults: in force. give_up: aborts a hand-over, for a reason."""

    def __init__(
        self, core: Core, endpoints: Endpoints, give_up: Callable[[Any, str], None]
    ) -> None:
        self.faults: Final = Faults()
        self._metrics: Final = core.metrics
        self._endpoints: Final = endpoints
        self._give_up: Final = give_up
        self._struck: Final[dict[str, list[Endpoint]]] = {fault: [] for fault in FAULTS}
        self.part: Final = Part("faults", turns={
            Turn.WAITS: lambda _: self._fail_struck(BOOTSTRAP),
            Turn.ROOM: lambda _: self._fail_struck(TRANSFER)})
        for name in FAULTS:
            core.metrics.gauge("fault_probability", "The share of hand-overs that fail on purpose, "
                               "by fault", partial(self.faults.probability, name), fault=name)

    def draw(self, fault: str, endpoint: Endpoint) -> None:
        """Draw whether this fault strikes the hand-over. If so, it fails before the turn ends."""
        if self.faults.strikes(fault):
            self._struck[fault].append(endpoint)

    def _fail_struck(self, fault: str) -> None:
        """Fail the hand-overs that this fault has struck in this turn."""
        if not self._struck[fault]:
            return
        for endpoint in self._struck[fault]:
            owner = endpoint.owner
            if not self._endpoints.is_dropped(owner) and owner.status not in ENDED:
                self._metrics.add("injected_faults")
                self._give_up(owner, reason_of(fault))
        self._struck[fault].clear()
