"""vLLM's NixlConnector, which notes in a file what becomes of each request: see lease_trace.py.

vLLM loads it in place of its own (`kv_connector_module_path`). VLLM_LEASE_EVENTS names the file.
The connector works as it does without: methods are called through others, which write a line.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from vllm.distributed.kv_transfer.kv_connector.v1.nixl import NixlConnector
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_worker import NixlPullConnectorWorker

from lab.vllm_lease.lease_trace import EVENTS

__all__ = ["NixlConnector"]

HEARTBEAT: Final = "HB:"

_reads: Final[dict[str, str]] = {}  # requests of decode's worker: their names at prefill


def _note(event: str, requests: Iterable[str], **more: Any) -> None:
    with Path(os.environ[EVENTS]).open("a") as file:
        file.writelines(json.dumps({"event": event, "request": request, **more}) + "\n"
                        for request in requests)


def _wrap(kind: Any, name: str, around: Callable[..., Any]) -> None:
    """around: takes the old method, self, and the arguments."""
    old = getattr(kind, name)
    setattr(kind, name, lambda self, *given, **named: around(old, self, *given, **named))


def _finished(old: Any, self: Any, request: Any, blocks: Any) -> Any:
    keeps, params = old(self, request, blocks)
    if keeps:
        ids = [block for group in params["remote_block_ids"] for block in group]
        _note("computed", [request.request_id], blocks=ids)
    return keeps, params


def _arrived(old: Any, self: Any, request: Any) -> None:
    params = request.kv_transfer_params or {}
    if params.get("do_remote_prefill"):
        _note("queued", [params["remote_request_id"]])
    old(self, request)


def _placed(old: Any, self: Any, request: Any, blocks: Any, external: int) -> None:
    params = request.kv_transfer_params or {}
    if external and params.get("do_remote_prefill"):
        _note("scheduled", [params["remote_request_id"]])
    old(self, request, blocks, external)


def _begun(old: Any, self: Any, request: str, meta: Any) -> None:
    _reads[request] = meta.remote.request_id
    old(self, request, meta)


def _ended(old: Any, self: Any, finished: Any) -> Any:
    results = old(self, finished)
    _note("loaded", [_reads.pop(name) for name in results.finished_recving or ()])
    return results


def _beat(old: Any, self: Any, metadata: Any) -> None:
    for engine, told in metadata.heartbeat_by_engine.items():
        if engine in self._remote_agents:  # else it has to introduce itself first
            _note("beat", told.req_ids)
    old(self, metadata)


def _heard(old: Any, self: Any) -> Any:
    get = self.nixl_wrapper.get_new_notifs
    told = get()
    for text in (one.decode() for several in told.values() for one in several):
        if text.startswith(HEARTBEAT):
            for name in text.removeprefix(HEARTBEAT).split(","):
                _note("renewed" if name in self._reqs_to_send else "beat too late", [name])
        else:
            name = text.rpartition(":")[0]
            kept = name in self._reqs_to_send or name in self._reqs_to_process
            _note("read" if kept else "read too late", [name])
    self.nixl_wrapper.get_new_notifs = lambda: told
    try:
        return old(self)
    finally:
        self.nixl_wrapper.get_new_notifs = get


def _reaped(old: Any, self: Any, done: Any) -> None:
    before = set(self._reqs_to_send)
    old(self, done)
    _note("expired", sorted(before - set(self._reqs_to_send)))


if os.environ.get(EVENTS):
    _wrap(NixlConnector, "request_finished_all_groups", _finished)
    _wrap(NixlConnector, "on_new_request", _arrived)
    _wrap(NixlConnector, "update_state_after_alloc", _placed)
    _wrap(NixlConnector, "get_transfer_results", _ended)
    _wrap(NixlPullConnectorWorker, "_read_blocks_for_req", _begun)
    _wrap(NixlPullConnectorWorker, "_send_heartbeats", _beat)
    _wrap(NixlPullConnectorWorker, "_get_new_notifs", _heard)
    _wrap(NixlPullConnectorWorker, "_reap_expired_send_leases", _reaped)
