"""Traces of SGLang's own Mooncake and NIXL managers, for `pdproto trace` (docs/peer.md).

    from lab.sglang_0_5_23.install import install
    install("traces")               # before SGLang makes its managers
    ...
    pdproto trace --system lab.peers.sglang:SYSTEM traces/*.jsonl

Methods are wrapped while the process runs; SGLang's files stay as they are.
"""

import os
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from sglang.srt.disaggregation.common.conn import CommonKVReceiver, CommonKVSender
from sglang.srt.disaggregation.utils import DisaggregationMode

from lab.sglang_0_5_23.sink import SinkTrace
from lab.sglang_0_5_23.source import SourceTrace
from pdproto.runtime.trace import TraceTarget

ATTRIBUTE: Final = "_pdproto_trace"
# The methods of senders and receivers, each with the method of the trace that it calls.
SENDER: Final = {"abort": "aborted", "_check_bootstrap_timeout": "timed"}
RECEIVER: Final = {
    "init": "initialized", "send_metadata": "published", "abort": "aborted",
    "ensure_abort_notified": "ensured", "_check_waiting_timeout": "timed",
}
BACKENDS: Final = {"mooncake": "MooncakeKVManager", "nixl": "NixlKVManager"}


def attach(manager: Any, target: TraceTarget) -> SourceTrace | SinkTrace:
    """Trace a manager from here on: before its first room. Raises ValueError for one that
    the tables do not describe.
    """
    _patch_ends()
    is_prefill = manager.disaggregation_mode == DisaggregationMode.PREFILL
    trace = SourceTrace(manager, target) if is_prefill else SinkTrace(manager, target)
    setattr(manager, ATTRIBUTE, trace)
    return trace


def install(folder: str | Path, backends: tuple[str, ...] = tuple(BACKENDS)) -> None:
    """Trace every manager that this process makes from now on, each into a file of the folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for backend in backends:
        module = import_module(f"sglang.srt.disaggregation.{backend}.conn")
        _trace_made(getattr(module, BACKENDS[backend]), Path(folder))


def _trace_made(manager: Any, folder: Path) -> None:
    made = manager.__init__
    if hasattr(made, ATTRIBUTE):
        return

    @wraps(made)
    def make(self: Any, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        name = f"{self.disaggregation_mode.value}-{os.getpid()}-{self.rank_port}.jsonl"
        attach(self, (folder / name).open("ab", buffering=0))

    setattr(make, ATTRIBUTE, True)
    manager.__init__ = make


def _patch_ends() -> None:
    """Have senders and receivers call the trace of their manager, where it has one."""
    if hasattr(CommonKVSender.__init__, ATTRIBUTE):
        return
    for end, names in ((CommonKVSender, SENDER), (CommonKVReceiver, RECEIVER)):
        _patch(end, "__init__", _created)
        for name, told in names.items():
            _patch(end, name, partial(_told, told))
    _patch(CommonKVReceiver, "_send_abort_notification", _notified)
    _patch(CommonKVReceiver, "_get_bootstrap_info_from_server", _located)


def _patch(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def patched(self: Any, *given: Any, **named: Any) -> Any:
        return around(original, self, *given, **named)

    setattr(patched, ATTRIBUTE, True)
    setattr(owner, name, patched)


def _created(original: Callable[..., Any], end: Any, mgr: Any, bootstrap_addr: str,
             bootstrap_room: int, *given: Any, **named: Any) -> None:
    create = partial(original, end, mgr, bootstrap_addr, bootstrap_room, *given, **named)
    trace = getattr(mgr, ATTRIBUTE, None)
    if trace is None:
        create()
    else:
        trace.created(bootstrap_room, create)


def _told(told: str, original: Callable[..., Any], end: Any, *given: Any, **named: Any) -> Any:
    call = partial(original, end, *given, **named)
    trace = getattr(end.kv_mgr, ATTRIBUTE, None)
    return call() if trace is None else getattr(trace, told)(end, call)


def _notified(original: Callable[..., Any], receiver: Any, **named: Any) -> None:
    original(receiver, **named)
    trace = getattr(receiver.kv_mgr, ATTRIBUTE, None)
    if trace is not None:
        trace.notified(receiver)


def _located(original: Callable[..., Any], receiver: Any, dp: int, cp: int, tp: int, pp: int
             ) -> Any:
    found = original(receiver, dp, cp, tp, pp)
    trace = getattr(receiver.kv_mgr, ATTRIBUTE, None)
    if trace is not None and found is not None:
        trace.located((int(cp), int(tp), int(pp)), found)
    return found
