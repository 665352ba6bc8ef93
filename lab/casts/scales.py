"""Scales that a caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.arguments import in_host_memory


def static_scales(scales: Any, entries: int) -> NDArray[np.float32]:
    """Scales in host memory, float32 [entry].

    Raises ValueError unless all are positive and finite.
    """
    told = np.asarray(in_host_memory(scales, "static"), np.float32)
    if told.shape != (entries,):
        raise ValueError(f"static: want {entries} scales, got shape {told.shape}")
    wrong = np.flatnonzero(~((told > 0) & (told < np.inf)))
    if wrong.size:
        entry = int(wrong[0])
        raise ValueError(f"static[{entry}]: want a positive finite scale, got {told[entry]}")
    return told
