"""What cells of SGLang cannot show here: some machines refuse a cell, and no cell has a GPU."""

import ctypes
from collections.abc import Mapping
from typing import Final

from examples.sglang_servers.without_gpu import FLAGS

VERBS: Final = "libibverbs.so.1"

# By the flag of every server that switches it off.
UNTESTED: Final[Mapping[str, str]] = {
    "--device": "CUDA: servers run with --device cpu, so no cell has its KV cache on a GPU",
    "--disable-overlap-schedule": "SGLang's overlap schedule: it orders passes by CUDA streams, so "
                                  "servers run with --disable-overlap-schedule",
    "--attention-backend": "attention kernels for GPUs: servers run with --attention-backend "
                           "torch_native",
}


def untested() -> list[str]:
    """A line for each thing that no cell can show on this machine."""
    return [line for flag, line in UNTESTED.items() if flag in FLAGS]


def refused() -> dict[str, str]:
    """Why this machine cannot run a cell, by the name of the cell."""
    try:
        ctypes.CDLL(VERBS)
    except OSError:
        return {"Mooncake": f"its engine loads {VERBS}, which is not here (Debian: apt-get install "
                            "libibverbs1)"}
    return {}
