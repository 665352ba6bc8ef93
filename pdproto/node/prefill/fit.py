"""Compares the page layouts of two nodes."""

from collections.abc import Callable

from pdproto.runtime.wire import PageLayout


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
