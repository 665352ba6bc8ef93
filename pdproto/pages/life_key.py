"""The key of a life's digests."""

from pdproto.pages.chunks import key_of
from pdproto.runtime.wire import Life


def key_of_life(life: Life) -> int:
    """The key of the digests of this life's pages. Both ends derive the same one."""
    return key_of(life.room, life.incarnation, life.generation)
