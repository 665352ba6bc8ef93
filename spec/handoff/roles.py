"""The sorts of the hand-over: its ranks, its lives, and its memory.

All systems of this folder share these sorts, so a rank, a life or a page means the same in each.
Machines and variables belong to the module that declares them.
"""

from pdproto.spec.language import Sort


class Source(Sort, prefix="p"):
    """A prefill rank (pipeline stage x tensor rank x context rank): it sends KV."""


class Sink(Sort, prefix="d"):
    """A decode rank: it receives KV, and owns the pages in which the KV is stored at the end."""


class Life(Sort, prefix="h"):
    """One life of one room: the identity of a hand-over. A client's retry is a new life."""


class Use(Sort, ordered=True, prefix="u"):
    """The first, second, ... time a prefill server opens a room."""


class Prompt(Sort, prefix="x"):
    """All that the KV of a request depends on, as its caller names it. One of them stands for the
    requests whose caller names none."""


class Page(Sort, prefix="g"):
    """A page of a sink's KV pool."""


class Buffer(Sort, prefix="b"):
    """A staging buffer: memory that a sink leases to one life for remote writes."""


class Chunk(Sort, ordered=True, prefix="c"):
    """A part of the data from a source to a sink: pages of KV in order, then recurrent state, then
    the metadata row."""


class Slot(Sort, prefix="m"):
    """A metadata slot: a source or a sink keeps one life's metadata row in it."""


class Attempt(Sort, ordered=True, prefix="a"):
    """The first, second, ... time the prefill of a request is run."""


class Incarnation(Sort, ordered=True, prefix="i"):
    """The first, second, ... run of a process, between its crashes."""
