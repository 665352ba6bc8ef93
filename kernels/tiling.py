"""The tiles of a copy, and the compiled variant of the kernel that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pdproto.kernels.table import NUMERATOR_MAX, TILES_MAX, Table

UNITS_MAX: Final = 1024
"""Units of one tile: 16 KiB, eight loads of 16 bytes in flight for each of 128 threads."""

NARROW_UNITS_MAX: Final = 256
"""Units of one tile where accesses are narrower than 16 bytes: a unit takes up to eight of them."""


class Variant(NamedTuple):
    """The constants of one compiled kernel."""

    atom: int
    pages: int
    units: int
    depth: int
    wide: bool
    flat: bool
    from_pool: bool  # else from the chunk
    store: bool  # else only digest
    digest: int
    check: bool
    peers: bool


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of one launch: page tiles times segments of a page, per entry and peer."""

    page_tiles: int
    segments: int
    tiles: int


def variant_for(
    table: Table, *, from_pool: bool, store: bool, digest: int, check: bool, peers: bool,
) -> Variant:  # fmt: skip
    """Choose the tile of a copy by the size of a page, never by how many there are."""
    page_units = -(-table.page_bytes // _unit(table.atom))
    most = UNITS_MAX if table.atom == 16 else NARROW_UNITS_MAX
    units = min(most, 1 << (page_units - 1).bit_length())
    # If padding a page to a power of two wastes much, finding the page of each unit is cheaper.
    flat = digest == 0 and store and table.even and table.atom == 16
    flat = flat and page_units < most and page_units != units
    if flat:
        pages, units = 1, most
    elif digest:
        # A digest takes registers for every page of a tile, so its tiles are smaller.
        pages = max(1, most // (2 * units))
    else:
        pages = most // units
    return Variant(
        table.atom, pages, units, table.depth, table.wide, flat,
        from_pool, store, digest, check, peers,
    )  # fmt: skip


def _unit(atom: int) -> int:
    return 16 if atom == 16 else 8


def tiling_for(variant: Variant, table: Table, *, sections: int, pages: int) -> Tiling:
    """Cut `pages` pages of `sections` entries times peers.

    Raises ValueError for 2**31 atoms or more.
    """
    page_units = -(-table.page_bytes // _unit(variant.atom))
    if variant.flat:
        units = pages * page_units
        page_tiles, segments = -(-units // variant.units), 1
    else:
        units = page_units
        page_tiles = -(-pages // variant.pages)
        segments = 1 if variant.digest else -(-page_units // variant.units)
    tiles = sections * page_tiles * segments
    # A tile may reach past the end of the last page, so one more bit is kept free.
    atoms = units * _unit(variant.atom) // variant.atom
    if tiles > TILES_MAX or 2 * atoms > NUMERATOR_MAX:
        raise ValueError(f"pages: {pages} pages make a launch of {tiles} tiles: ask for fewer")
    return Tiling(page_tiles, segments, tiles)
