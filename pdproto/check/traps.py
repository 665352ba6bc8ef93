"""The traps of a region by NumPy and SciPy: for the portable engine, and to compare native ones.

liveness.py says where a fair run can stay for ever.
"""

from typing import Final

import numpy as np

from pdproto.check.engine import Assumptions, Edges, Flags, Positions, Traps


def find_traps(edges: Edges, pending: Flags, allowed: Flags, assumed: Assumptions) -> Traps:
    """See engine.Engine.traps. edges: of all states."""
    region = _Region(edges, pending, allowed, assumed)
    where = np.zeros(len(pending), np.uint8)
    for bit in range(assumed.count):
        fair = (assumed.fair >> bit & 1).astype(bool)
        where[region.traps(fair)] |= 1 << bit
    found = int(np.bitwise_or.reduce(where, initial=0))
    return Traps(found, where, region.components.astype(np.uint32))


class _Region:
    """The states of a region, with the faultless edges from them."""

    def __init__(
        self, edges: Edges, pending: Flags, allowed: Flags, assumed: Assumptions
    ) -> None:
        every = np.repeat(np.arange(len(pending)), np.diff(edges.starts))
        targets = edges.targets.astype(np.int64)
        self.inside: Final = _reached(every, targets, pending, allowed)
        leaving = self.inside[every] & ~assumed.faults[edges.rows]
        self.sources: Final[Positions] = every[leaving]
        self.targets: Final[Positions] = targets[leaving]
        self.units: Final[Positions] = assumed.units[edges.rows[leaving]].astype(np.int64)
        self.staying: Final[Flags] = self.inside[self.targets]
        self.components: Final = _components(
            len(pending), self.sources[self.staying], self.targets[self.staying]
        )
        self.sizes: Final = np.bincount(self.components)

    def traps(self, fair: Flags) -> Flags:
        """[states]: the states in which a fair run can stay for ever. fair: [rows]."""
        rows = len(fair)
        home = self.components[self.sources]
        alone = self.sizes[home] == 1
        trapped = self.inside.copy()
        # A run can stay in a single state unless a fair row leads out.
        trapped[self.sources[alone & fair[self.units]]] = False
        # A run can stay in several states unless a fair row is enabled in all and fires in none.
        pressing = ~alone & fair[self.units]
        keys, enabled = np.unique(home[pressing] * rows + self.units[pressing], return_counts=True)
        everywhere = keys[enabled == self.sizes[keys // rows]]
        within = pressing & self.staying & (home == self.components[self.targets])
        taken = np.unique(home[within] * rows + self.units[within])
        driven = np.setdiff1d(everywhere, taken) // rows
        return trapped & ~np.isin(self.components, driven)


def _reached(sources: Positions, targets: Positions, pending: Flags, allowed: Flags) -> Flags:
    """[states]: the allowed states that are reached from pending ones through allowed ones."""
    inside = allowed[sources] & allowed[targets]
    sources, targets = sources[inside], targets[inside]
    seen = pending & allowed
    while True:
        new = targets[seen[sources] & ~seen[targets]]
        if not new.size:
            return seen
        seen[new] = True


def _components(states: int, sources: Positions, targets: Positions) -> Positions:
    """[states]: the strongly connected component of each state under the given edges."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - exploring alone does not need scipy
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - as above

    weights = np.ones(len(sources), dtype=np.int8)
    matrix = csr_array((weights, (sources, targets)), shape=(states, states))
    _, labels = connected_components(matrix, directed=True, connection="strong")
    return labels.astype(np.int64)
