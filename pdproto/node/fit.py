"""Compares the data paths of two nodes: whether bytes can move between them, and page layouts."""

from collections.abc import Callable

from pdproto.node.data_path import HasReach
from pdproto.node.link import host_of
from pdproto.runtime.wire import PageLayout


def barred(data_path: object, endpoint: str) -> str:
    """Why the peer at this endpoint cannot write here. Empty if it can, or if that is unknown."""
    host = host_of(endpoint)
    if host is None or not isinstance(data_path, HasReach):
        return ""
    return data_path.out_of_reach(host) or ""


def misfit(
    ours: PageLayout | None, source: str, sink: str, theirs: PageLayout | None,
    conversion: Callable[[PageLayout], str] = lambda _: "",
) -> str:
    """Why the pages of a source do not fit those of a sink, with the layouts of both.

    Empty if they fit, or if one layout is unknown. ours: the layout of the source's pages. source,
    sink: the names of the two nodes. theirs: the layout that the sink has sent. conversion: see
    Converts.
    """
    if ours is None or theirs is None or _fit(ours, theirs):
        return ""
    told = f"pages do not fit: {source} has {ours.told}, and {sink} {theirs.told}"
    if setting := conversion(theirs):
        told += f": page sizes differ, convertible: open the data paths of both with {setting}"
    return told


def _fit(ours: PageLayout, theirs: PageLayout) -> bool:
    return ours.digest == theirs.digest and all(
        here == there or not (here and there)
        for here, there in zip(ours.buffers, theirs.buffers, strict=False))
