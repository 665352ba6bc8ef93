"""Page lists as runs of consecutive pages: fewer descriptors for a copy engine or a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def coalesce_runs(pages: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Return int64 [run, 3]: the first page, its position in `pages`, and how many follow.

    `pages[position + k] == first + k` for k below the length, and runs are as long as possible:
    [7, 8, 9, 3] is [[7, 0, 3], [3, 3, 1]]. Raises ValueError unless `pages` is one-dimensional.
    """
    listed = np.asarray(pages, dtype=np.int64)
    if listed.ndim != 1:
        raise ValueError(f"pages: want one axis, got shape {listed.shape}")
    if listed.size == 0:
        return np.empty((0, 3), np.int64)
    breaks = np.flatnonzero(np.diff(listed) != 1) + 1
    starts = np.concatenate((np.zeros(1, np.int64), breaks))
    lengths = np.diff(np.append(starts, listed.size))
    return np.stack((listed[starts], starts, lengths), axis=1)
