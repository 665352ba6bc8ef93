"""Compares the data paths of two nodes: whether bytes can move between them, and page layouts."""

from pdproto.node.data_path import Converts, HasLayout, HasReach
from pdproto.node.link import host_of
from pdproto.runtime.wire import PageLayout


def barred(data_path: object, endpoint: str) -> str:
    """Why the peer at this endpoint cannot write here. Empty if it can, or if that is unknown."""
    host = host_of(endpoint)
    if host is None or not isinstance(data_path, HasReach):
        return ""
    return data_path.out_of_reach(host) or ""


def layout_for(data_path: object, peer: str) -> PageLayout | None:
    """The layout of the pages that this peer writes or reads; None if the data path has none."""
    return data_path.layout_for(peer) if isinstance(data_path, HasLayout) else None


def misfit(data_path: object, source: str, sink: str, theirs: PageLayout | None) -> str:
    """Why the pages of a source do not fit those of a sink, with the layouts of both.

    Empty if they fit, or if one layout is unknown. data_path: the source's own. source, sink: the
    names of the two nodes. theirs: the layout that the sink has sent.
    """
    ours = layout_for(data_path, sink)
    if ours is None or theirs is None or _fit(ours, theirs):
        return ""
    told = f"pages do not fit: {source} has {ours.told}, and {sink} {theirs.told}"
    setting = data_path.conversion(theirs) if isinstance(data_path, Converts) else ""
    if setting:
        told += f": page sizes differ, convertible: open the data paths of both with {setting}"
    return told


def _fit(ours: PageLayout, theirs: PageLayout) -> bool:
    return ours.digest == theirs.digest and all(
        here == there or not (here and there)
        for here, there in zip(ours.buffers, theirs.buffers, strict=False))
