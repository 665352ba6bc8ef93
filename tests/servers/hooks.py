"""What a test puts into a server before it starts; the environment names it, the product never.

SERVERS_DEFECT names a defect of defects.py. SIGUSR1 to a prefill server closes its registry, and
opens it again a second later. SIGUSR2 to a scheduler makes it lose a slot of a request. SIGRTMIN
has it hold its interpreter for HOLDS_S.
"""

import ctypes
import importlib
import os
import signal
import threading
import time
from importlib.util import find_spec
from typing import Any, Final

from tests.servers.planting import replace, wrap

DEFECT: Final = "SERVERS_DEFECT"
HOOK: Final = "tests.servers.hooks:install"
HOLDS_S: Final = 8


def install() -> None:
    """Called in a server's main process, of which all others are forks."""
    if find_spec("mooncake") is not None:
        _let_mooncake_copy()
    _reopen_registry_on_signal()
    _lose_slot_on_signal()
    signal.signal(signal.SIGRTMIN, lambda *_: ctypes.PyDLL(None).sleep(HOLDS_S))
    if defect := os.environ.get(DEFECT):
        importlib.import_module("tests.servers.defects").put_in(defect)


def _let_mooncake_copy() -> None:
    """Mooncake's sender copies page numbers over pinned memory and a CUDA event, which torch for a
    processor has not. Without the flag SGLang takes its plain way.
    """
    from sglang.srt.disaggregation.mooncake.conn import MooncakeKVSender

    MooncakeKVSender.supports_host_tensor_indices = False


def _reopen_registry_on_signal() -> None:
    """The registry is a thread of prefill's main process: nobody can restart it from outside."""
    from pdproto.sglang import server

    class Reopened(server.PdprotoKVBootstrapServer):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=again).start())

            def again() -> None:
                self.close()
                time.sleep(1.0)
                super(Reopened, self).__init__(*given, **named)

    replace(server, "PdprotoKVBootstrapServer", Reopened)


def _lose_slot_on_signal() -> None:
    """So that a cell sees whether SGLang's own leak check is on."""
    from sglang.srt.managers.scheduler_components.invariant_checker import (
        SchedulerInvariantChecker,
    )

    asked = threading.Event()
    signal.signal(signal.SIGUSR2, lambda *_: asked.set())

    def check(old: Any, self: Any) -> None:
        if asked.is_set():
            asked.clear()
            self.req_to_token_pool.free_slots.pop()
        old(self)

    wrap(SchedulerInvariantChecker, "_check_req_pool", check)
