"""vLLM's NixlConnector whose progress thread, and whose ranks, wait between two looks for news.

NIXL's Python interface makes that thread look without a pause (`pthrDelay = 0`), so each server
keeps one core busy while nothing happens. On a machine with few cores, a bench would then measure
that thread and not the connector. The ranks wait as those of ours do in these tests
(patient_ranks.py). vLLM loads this module by `kv_connector_module_path`.
"""

import importlib
from typing import Any, Final

from vllm.distributed.kv_transfer.kv_connector.v1.nixl import NixlConnector

from tests.vllm_servers import patient_ranks

__all__ = ["NixlConnector"]

PAUSE_US: Final = 100


def _pause() -> None:
    bindings = importlib.import_module("nixl._api").nixlBind  # vLLM has imported it by now

    class Paused(bindings.nixlAgentConfig):  # type: ignore[misc, name-defined]
        """NIXL makes one, and then sets its pause to zero: this one keeps the pause."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, PAUSE_US if name == "pthrDelay" else value)

    bindings.nixlAgentConfig = Paused


_pause()
patient_ranks.pause()
