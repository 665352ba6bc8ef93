"""A connector that stands beside ours in vLLM's MultiConnector: it keeps the blocks of each request
that has ended normally for some steps, as one that stores them elsewhere, and loads none.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    SupportsHMA,
)

from pdproto.vllm.connector import COMPLETE

STEPS: Final = 5


@dataclass
class Stores(KVConnectorMetadata):
    """The requests whose blocks are to be stored."""

    requests: list[str] = field(default_factory=list)


class Beside(KVConnectorBase_V1, SupportsHMA):
    """See above. left: at the worker: steps until it has stored a request."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.left: Final[dict[str, int]] = {}
        self._stores = Stores()

    def get_num_new_matched_tokens(self, *_: Any) -> Any:
        return 0, False

    def update_state_after_alloc(self, *given: Any) -> None:
        assert given[-1] == 0, "tokens to load"

    def build_connector_meta(self, *_: Any) -> KVConnectorMetadata:
        stores, self._stores = self._stores, Stores()
        return stores

    def request_finished_all_groups(self, request: Any, *_: Any) -> Any:
        if request.status not in COMPLETE:
            return False, None
        self._stores.requests.append(request.request_id)
        return True, None

    def start_load_kv(self, *_: Any, **__: Any) -> None:
        stores = self._get_connector_metadata()
        assert isinstance(stores, Stores)
        self.left.update(dict.fromkeys(stores.requests, STEPS))

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing is loaded."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **_: Any) -> None:
        """A request is stored when it has ended."""

    def wait_for_save(self) -> None:
        """vLLM keeps the blocks meanwhile."""

    def get_finished(self, *_: Any) -> tuple[set[str] | None, set[str] | None]:
        for request in self.left:
            self.left[request] -= 1
        stored = {request for request, left in self.left.items() if not left}
        for request in stored:
            del self.left[request]
        return stored, None
