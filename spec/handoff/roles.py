"""Who takes part in a hand-over, and what passes through their hands.

The systems of this folder share these sorts, so that a rank, a room's life or a page means the
same in each. Machines and variables belong to the module that declares them.
"""

from pdproto.spec.language import Sort


class Source(Sort, prefix="p"):
    """A prefill rank (pipeline stage x tensor rank x context rank): it sends KV."""


class Sink(Sort, prefix="d"):
    """A decode rank: it receives KV, and owns the pages that the KV ends in."""


class Life(Sort, prefix="h"):
    """One life of one room: the identity of a hand-over. A retry by the client is another life."""


class Use(Sort, ordered=True, prefix="u"):
    """The first, second, ... time that a prefill server opens a room."""


class Page(Sort, prefix="g"):
    """A page of a sink's KV pool."""


class Landing(Sort, prefix="b"):
    """A landing chunk: memory that a sink leases to one life for remote writes."""


class Chunk(Sort, ordered=True, prefix="c"):
    """A part of what a source sends to a sink: pages of KV in order, then recurrent state, then
    the metadata row."""


class Slot(Sort, prefix="m"):
    """A metadata slot: where one life's metadata row is kept, at a source or at a sink."""


class Attempt(Sort, ordered=True, prefix="a"):
    """The first, second, ... time that a request's prefill is run."""


class Incarnation(Sort, ordered=True, prefix="i"):
    """The first, second, ... run of a process, between its crashes."""
