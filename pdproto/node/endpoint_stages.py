"""The stages of a node's endpoints: how many are in each, and how each endpoint ends."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pdproto.ground.layout import Indices
from pdproto.node.log_fields import log_fields
from pdproto.node.metrics import Metrics
from pdproto.node.part import Reaction
from pdproto.node.sides import Side
from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import State, Symbol

log = logging.getLogger("pdproto.node")


def name_of(stage: State) -> str:
    """The name of a stage in metrics and answers."""
    return stage.name.lower()


class EndpointStages:
    """The stages of one node's endpoints. The owner of an endpoint has its stage, and the times of
    its changes.

    node: its name. now: the time of the turn, in seconds of the node's clock. on_failed: called
    with an endpoint that fails, and with its stage before the failure.
    """

    def __init__(
        self, node: str, side: Side, metrics: Metrics, now: Callable[[], float],
        on_failed: Callable[[Endpoint, State], None],
    ) -> None:
        self._node: Final = node
        self._side: Final = side
        self._metrics: Final = metrics
        self._now: Final = now
        self._on_failed: Final = on_failed
        self._counts: Final[dict[State, int]] = dict.fromkeys(side.stages, 0)
        for name, about, stages in side.queues:
            metrics.gauge(name, about, partial(self._count, stages))
        for stage in side.stages:
            if stage.name not in ("SUCCESS", "FAILED", "GONE"):
                metrics.gauge("num_handoffs", "Hand-overs that have not ended, by state",
                              partial(self._count, (stage,)), state=name_of(stage))

    @property
    def reactions(self) -> Mapping[tuple[Symbol, Value], Reaction]:
        """The reactions to changes of the stage; see Part."""
        side = self._side
        found: dict[tuple[Symbol, Value], Reaction] = {
            (side.stage, stage): partial(self._enter, stage) for stage in side.stages}
        found[side.stage, side.succeeded] = self._succeed
        found[side.stage, side.failed] = self._fail
        return found

    def register(self, owner: Any) -> None:
        """Count a new endpoint, in its first stage."""
        self._counts[owner.stage] += 1

    def unregister(self, owner: Any) -> None:
        """Stop counting the endpoint, which is forgotten before it has ended."""
        self._counts[owner.stage] -= 1

    def _enter(self, stage: State, endpoint: Endpoint, _: Indices) -> None:
        owner, counts = endpoint.owner, self._counts
        counts[owner.stage] -= 1
        counts[stage] += 1
        owner.stage, owner.entered = stage, self._now()

    def _succeed(self, endpoint: Endpoint, indices: Indices) -> None:
        self._enter(self._side.succeeded, endpoint, indices)
        owner = endpoint.owner
        owner.ended = owner.entered
        self._metrics.add("handoffs_succeeded")
        self._metrics.add("transfer_seconds", owner.ended - owner.began)

    def _fail(self, endpoint: Endpoint, indices: Indices) -> None:
        owner, side, before = endpoint.owner, self._side, endpoint.owner.stage
        self._enter(side.failed, endpoint, indices)
        owner.ended = owner.entered
        owner.reason = owner.blame or "failed"
        transferring = before in side.under_way
        self._metrics.add("transfer_failed_reqs" if transferring else "bootstrap_failed_reqs")
        others = f" with {', '.join(endpoint.peers)}" if endpoint.peers else ""
        log.warning("node %s: %s%s has failed: %s", self._node,
                    endpoint.life or f"room {owner.room}", others, owner.reason,
                    extra=log_fields(self._node, endpoint.life, owner.room))
        self._on_failed(endpoint, before)

    def _count(self, stages: tuple[State, ...]) -> int:
        return sum(self._counts[stage] for stage in stages)
