"""The parts of vLLM's own code that the connector relies on, by which releases are compared.

Rule: a call that vLLM adds to its base class is answered by vLLM until the connector answers it, so
      a new name is a difference as much as a missing one.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import EnumMeta
from inspect import Signature, isfunction, signature
from pathlib import Path
from typing import Any, Final

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    KVConnectorTransferResults,
)
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.distributed.parallel_state import get_pp_group, get_tp_group, get_world_group
from vllm.utils.network_utils import get_ip
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
from vllm.v1.metrics.utils import create_metric_per_engine
from vllm.v1.request import Request, RequestStatus

RECORD: Final = Path(__file__).with_name("interface.txt")
ANSWERED: Final = (KVConnectorBase_V1, KVConnectorStats)  # the connector's own classes derive
READ: Final = (
    FullAttentionSpec,
    KVCacheConfig,
    KVConnectorRole,
    KVConnectorTransferResults,
    MLAAttentionSpec,
    MambaSpec,
    RequestStatus,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)
CALLED: Final = (
    KVConnectorFactory.register_connector,
    KVConnectorPromMetrics.__init__,
    create_metric_per_engine,
    get_ip,
    get_pp_group,
    get_tp_group,
    get_world_group,
)
OF_REQUESTS: Final = (
    "_all_token_ids",
    "cache_salt",
    "kv_transfer_params",
    "lora_request",
    "max_tokens",
    "mm_features",
    "num_prompt_tokens",
    "prompt_embeds",
    "prompt_token_ids",
    "request_id",
    "status",
)


def found() -> frozenset[str]:
    """The interface of the vLLM that is installed: names, and of calls their parameters."""
    made = Request.__init__.__code__.co_names
    return frozenset(
        {
            *(f"{call.__qualname__}{_parameters(call)}" for call in CALLED),
            *(
                f"{owner.__name__}.{name}{_told(member)}"
                for owner in ANSWERED
                for name, member in vars(owner).items()
                if not name.startswith("_")
            ),
            *(f"{owner.__name__}.{name}" for owner in READ for name in _names(owner)),
            *(f"Request.{name}" for name in OF_REQUESTS if name in made or hasattr(Request, name)),
        }
    )


def recorded() -> frozenset[str]:
    """The same of the newest release with which this connector is tested."""
    return frozenset(RECORD.read_text().splitlines())


def _names(owner: Any) -> Iterable[str]:
    if isinstance(owner, EnumMeta):
        return owner.__members__
    return [field.name for field in fields(owner)] if is_dataclass(owner) else owner._fields


def _told(member: Any) -> str:
    if isinstance(member, (classmethod, staticmethod)):
        return _parameters(member.__func__)
    return _parameters(member) if isfunction(member) else ""


def _parameters(call: Any) -> str:
    """Without types, which releases word otherwise, and without the values of defaults."""
    kept = [one.replace(annotation=one.empty,
                        default=one.empty if one.default is one.empty else None)
            for one in signature(call).parameters.values()]
    return str(Signature(kept))
