"""SGLang's manager: one node, the pools that KVArgs point to, and the way to the registry.

Rule 1: what the backend cannot do is refused at start-up, with the setting that asks for it.
Rule 2: a prefill server that does not fit fails the requests that are sent to it, with the reason,
        and never the scheduler.
"""

import logging
import os
from collections.abc import Mapping
from time import time_ns
from typing import Any, Final

from sglang.srt.disaggregation.base.conn import BaseKVManager
from sglang.srt.disaggregation.common.conn import PrefillServerInfo
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.runtime_context import get_disagg, get_parallel, get_serving
from sglang.srt.utils.network import get_local_ip_auto

from pdproto.net.decode import DecodeNode
from pdproto.net.engines import ENGINES, open_sink, open_source
from pdproto.net.link import Link
from pdproto.net.pages import SinkPages, SourcePages
from pdproto.net.prefill import PrefillNode
from pdproto.net.registry_client import (
    Directory,
    NotFoundError,
    Registrar,
    RegistryClient,
    UnreachableError,
)
from pdproto.net.registry_wire import Rank, RefusedError, Registration
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import VERSION
from pdproto.sglang.pools import MetadataRows, kv_pools

log = logging.getLogger("pdproto.sglang")

ENGINE: Final = "PDPROTO_ENGINE"  # which engine moves the bytes, by its name in net/engines.py
PROBLEMS: Final = (NotFoundError, UnreachableError, RefusedError, RemoteProtocolError)


class PdprotoKVManager(BaseKVManager):
    """See the rules above. Raises ValueError for what rule 1 refuses."""

    def __init__(
        self,
        args: Any,
        disaggregation_mode: DisaggregationMode,
        server_args: Any,
        is_mla_backend: bool | None = False,
    ) -> None:
        self.kv_args = args
        self.server_args = server_args
        self.is_mla_backend = bool(is_mla_backend)
        self.disaggregation_mode = disaggregation_mode
        self.parallel = get_parallel()
        _refuse(args, server_args, self.parallel)
        engine = os.environ.get(ENGINE, "tcp")
        if engine not in ENGINES:
            raise ValueError(f"{ENGINE}={engine}: want one of {', '.join(ENGINES)}")
        pools = kv_pools(args)
        self.rows: Final = MetadataRows(args)
        self.page_bytes: Final = sum(args.kv_item_lens)
        self.prefill_info_table: Final[dict[str, PrefillServerInfo]] = {}
        self._directories: Final[dict[str, Directory]] = {}
        self._registrar: Registrar | None = None
        host = get_local_ip_auto()
        link = Link(f"tcp://{host}:0")
        # Names tell the ranks of all servers apart that one decode rank talks to.
        name = f"{disaggregation_mode.value}-{host}-{os.getpid()}-{time_ns()}"
        if disaggregation_mode == DisaggregationMode.PREFILL:
            plane = SourcePages(pools, open_source(engine))
            self.node: PrefillNode | DecodeNode = PrefillNode(name, plane, link=link)
            self.register_to_bootstrap()
        else:
            self.node = DecodeNode(name, SinkPages(pools, open_sink(engine)), link=link)

    @property
    def prefill(self) -> PrefillNode:
        assert isinstance(self.node, PrefillNode)  # noqa: S101 - senders are prefill's
        return self.node

    @property
    def decode(self) -> DecodeNode:
        assert isinstance(self.node, DecodeNode)  # noqa: S101 - receivers are decode's
        return self.node

    def register_to_bootstrap(self) -> None:
        """Begin to register, and stay registered for as long as the manager lives."""
        host, _, port = self.node.endpoint.removeprefix("tcp://").rpartition(":")
        parallel, args = self.parallel, self.kv_args
        serving, disagg = get_serving(), get_disagg()
        self._registrar = Registrar(
            f"{serving.host}:{disagg.disaggregation_bootstrap_port}",
            Registration(
                attn_tp_size=parallel.attn_tp_size, attn_tp_rank=parallel.attn_tp_rank,
                rank_ip=host, rank_port=int(port), page_size=args.page_size,
                kv_cache_dtype=args.kv_cache_dtype_str, kv_layout=args.kv_layout,
                incarnation=self.node.incarnation, version=VERSION, name=self.node.name,
            ),
            on_refused=lambda reason: log.error("%s: %s", self.node.name, reason),
        )
        self._registrar.start()

    def try_ensure_parallel_info(self, bootstrap_addr: str) -> bool:
        """Whether the prefill server at this address is known, or has just become so."""
        if bootstrap_addr in self.prefill_info_table:
            return True
        try:
            directory = self._look_up(bootstrap_addr)
        except PROBLEMS as error:
            log.warning("prefill server %s: %s", bootstrap_addr, error)
            return False
        server = directory.server
        self.prefill_info_table[bootstrap_addr] = PrefillServerInfo(
            attn_tp_size=server.attn_tp_size, attn_cp_size=server.attn_cp_size,
            dp_size=server.dp_size, pp_size=server.pp_size, page_size=server.page_size,
            kv_cache_dtype=server.kv_cache_dtype,
            follow_bootstrap_room=server.follow_bootstrap_room, kv_layout=server.kv_layout,
            prefill_http_port=server.prefill_http_port,
        )
        return True

    def sources_of(self, bootstrap_addr: str, dp_rank: int) -> Mapping[str, str]:
        """Where the rank listens that sends to this one, by name. Raises LookupError with why."""
        lost = set(self.node.lost_peers())
        known = self._directories.get(bootstrap_addr)
        if known is not None and any(rank.address.name in lost for rank in known.ranks):
            known = None  # it may be another run by now
        try:
            directory = known or self._look_up(bootstrap_addr)
        except PROBLEMS as error:
            raise LookupError(str(error)) from None
        misfit = self._misfit(directory)
        if misfit:
            raise LookupError(f"prefill server {bootstrap_addr}: {misfit}")
        wanted = Rank(dp_rank, 0, self.parallel.attn_tp_rank, 0)
        found = directory.addresses().get(wanted)
        if found is None:
            raise LookupError(f"prefill server {bootstrap_addr} has no {wanted}")
        return {found.name: f"tcp://{found.rank_ip}:{found.rank_port}"}

    def _look_up(self, bootstrap_addr: str) -> Directory:
        client = RegistryClient(bootstrap_addr)
        try:
            self._directories[bootstrap_addr] = found = client.look_up_all()
        finally:
            client.close()
        return found

    def _misfit(self, directory: Directory) -> str | None:
        """In what the prefill server differs from this one that has to be alike."""
        theirs, args = directory.server, self.kv_args
        pairs = {
            "page_size": (theirs.page_size, args.page_size),
            "kv_cache_dtype": (theirs.kv_cache_dtype, args.kv_cache_dtype_str),
            "kv_layout": (theirs.kv_layout, args.kv_layout),
            "attn_tp_size": (theirs.attn_tp_size, self.parallel.attn_tp_size),
            "attn_cp_size": (theirs.attn_cp_size, 1),
            "pp_size": (theirs.pp_size, 1),
        }
        for name, (there, here) in pairs.items():
            if there is not None and here is not None and there != here:
                return f"{name} is {there} there and {here} here"
        return None

    def teardown(self) -> None:
        """Say goodbye to the registry, end what is under way, and give everything back."""
        if self._registrar is not None:
            self._registrar.stop()
        self.node.close()


def _refuse(args: Any, server_args: Any, parallel: Any) -> None:
    refused = {
        "a KV cache on a GPU": server_args.device != "cpu",
        f"state buffers ({', '.join(map(str, args.state_types))})": bool(args.state_types),
        f"pipeline parallelism ({parallel.pp_size})": parallel.pp_size > 1,
        f"context parallelism ({parallel.attn_cp_size})": parallel.attn_cp_size > 1,
        f"data-parallel attention ({parallel.attn_dp_size})": parallel.attn_dp_size > 1,
        f"several servers ({parallel.dp_size})": parallel.dp_size > 1,
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise ValueError(f"the pdproto backend does not transfer {what} yet")
