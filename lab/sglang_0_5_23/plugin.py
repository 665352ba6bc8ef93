"""SGLang traced without a line of code: its own plug-in mechanism calls this in each process."""

import os
from importlib import import_module
from typing import Final

FOLDER: Final = "PDPROTO_PEER_TRACE"  # where the traces go
BACKEND: Final = "PDPROTO_PEER_BACKEND"  # whose manager is traced, if it is not Mooncake's


def plugin() -> None:
    """Trace the managers that this process makes, if it is asked for."""
    folder = os.environ.get(FOLDER)
    if folder:
        install = import_module("lab.sglang_0_5_23.install").install
        install(folder, (os.environ.get(BACKEND, "mooncake"),))
