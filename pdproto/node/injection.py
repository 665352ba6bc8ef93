"""The hand-overs of a node that its operator has fail on purpose (faults.py)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import BOOTSTRAP, FAULTS, TRANSFER, Faults, reason_of
from pdproto.node.handle import ENDED
from pdproto.node.part import Part, Turn
from pdproto.runtime.endpoint import Endpoint


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
