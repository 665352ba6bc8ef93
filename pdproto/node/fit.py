"""Compares the data paths of two nodes: can bytes come from there, and do pages lie alike."""

from pdproto.node.data_path import HasLayout, HasReach
from pdproto.node.link import host_of
from pdproto.runtime.wire import Layout


def barred(data_path: object, endpoint: str) -> str:
    """Why no bytes can come from the peer at this endpoint; empty if they can, for all one knows.
    """
    host = host_of(endpoint)
    if host is None or not isinstance(data_path, HasReach):
        return ""
    return data_path.out_of_reach(host) or ""


def layout_for(data_path: object, peer: str) -> Layout | None:
    """How the pages lie that this peer writes, or is written from; None where nobody says."""
    return data_path.layout_for(peer) if isinstance(data_path, HasLayout) else None


def misfit(data_path: object, source: str, sink: str, theirs: Layout | None) -> str:
    """Why the pages of a source cannot end in those of a sink, with what both have; empty if they
    can, or if one of them does not say how they lie. data_path: of the source.
    """
    ours = layout_for(data_path, sink)
    if ours is None or theirs is None or ours.digest == theirs.digest:
        return ""
    return f"pages do not fit: {source} has {ours.told}, and {sink} {theirs.told}"
