"""The fences of a decode rank, which keep a source out of the memory of a life."""

import logging
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.core import Core
from pdproto.node.data_path import Fenced, SinkDataPath
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import log_fields
from pdproto.node.part import Part
from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim

log = logging.getLogger("pdproto.node")


class Fences:
    """The table decides when a source is fenced (spec/handoff/sink.py)."""

    def __init__(
        self, core: Core, endpoints: Endpoints, lives: NumberedLives, data_path: SinkDataPath
    ) -> None:
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._lives: Final = lives
        self._data_path: Final = data_path
        self.part: Final = Part("fences", reactions={(ends.claim, Claim.FENCING): self._begin})

    def _begin(self, endpoint: Endpoint, indices: Indices) -> None:
        source = endpoint.peers[indices[2]]
        self._core.metrics.add("fences_started")
        log.info("node %s: fencing %s out of the memory of %s", self._core.name, source,
                 endpoint.life, extra=log_fields(self._core.name, endpoint.life))
        self._data_path.fence(self._endpoints.life(endpoint), source)

    def end(self, report: Fenced) -> None:
        """No write of the source lands any more."""
        self._core.metrics.add("fences_done")
        endpoint = self._endpoints.lives.get(report.life)
        if endpoint is None:
            return  # the source answered before the fence was complete, and the life is over
        place = 0, 0, endpoint.peers.index(report.source)
        if endpoint.value(ends.claim, place) is Claim.FENCING:
            self._endpoints.take(endpoint, endpoint.automaton.device(
                (ends.claim, place, Claim.FENCED)))
        self._lives.conclude(endpoint)
