"""The copy kernel: pages to chunk, chunk to pages, or neither and only their digests.

One launch moves every entry of every peer. The work is cut into tiles of PAGES pages by UNITS
units of one entry for one peer; a program takes tiles in turn until none is left, so that the
number of programs is free. A unit is 16 bytes where all addresses, strides and sizes allow, and
8 bytes otherwise, moved in atoms of ATOM bytes, the widest access that is aligned. Bytes are
bytes: element types do not matter, and NaN payloads survive.

A tile is one axis of units, page after page, so that neighbouring lanes of a warp always move
neighbouring units. Were pages an axis of their own, Triton 3.4 to 3.6 would give neighbouring lanes
neighbouring pages, and each lane's 16 bytes would be a request to memory of its own.

What differs between entries and peers comes from a table, one row per entry and peer in the
columns below, so that any mixture of geometries is one launch of one compiled kernel.

Cost: every byte is read once and written once, and 8 bytes per page and entry for a digest. The
reference is `reference.pack_reference`, and equality is exact.
"""

# Triton's own manner: constants in capitals, and a kernel's arguments are all it knows.
# ruff: noqa: N803, N806, PLR0913, PLR0917, RET505

# Annotations are types that Triton reads, so they stay values here, and mypy knows none of them.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import triton
import triton.language as tl

POOL_ADDRESS = tl.constexpr(0)  # of the first head that the peer gets
PAGE_STRIDE = tl.constexpr(1)  # bytes between pages of the pool
PAGE_BYTES = tl.constexpr(2)  # of a page in the chunk
PREFIX_BYTES = tl.constexpr(3)  # of a page of all entries before this one
OUTER_ATOMS = tl.constexpr(4)  # atoms per step of the outer axis, and how to divide by it
OUTER_FACTOR = tl.constexpr(5)
OUTER_SHIFT = tl.constexpr(6)
OUTER_GAP = tl.constexpr(7)  # atoms that a step of the outer axis is longer in the pool
INNER_ATOMS = tl.constexpr(8)
INNER_FACTOR = tl.constexpr(9)
INNER_SHIFT = tl.constexpr(10)
INNER_GAP = tl.constexpr(11)
PAGE_FACTOR = tl.constexpr(12)
PAGE_SHIFT = tl.constexpr(13)
COLUMNS = tl.constexpr(14)

UNSPECIALIZED = [
    "table_ptr", "peer_ptr", "page_ptr", "chunk_ptr", "digest_ptr", "report_ptr", "pool_pages",
    "pages", "page_tiles", "segments", "peers", "tiles", "key",
]  # fmt: skip

THREADS = tl.constexpr(128)  # of a program, or it is only slower
NO_POSITION = tl.constexpr((1 << 31) - 1)

# As in `digest`.
DIGEST_PLACE = tl.constexpr(0x9E3779B97F4A7C15)
MIX_FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
MIX_SECOND = tl.constexpr(0x94D049BB133111EB)

NO_DIGEST = tl.constexpr(0)
WRITE_DIGEST = tl.constexpr(1)
COMPARE_DIGEST = tl.constexpr(2)


@triton.jit
def divide(numerator, row_ptr, DIVISION: tl.constexpr):
    """Divide by a constant of the table, see `table.division`. Exact below 2**31."""
    factor = tl.load(row_ptr + DIVISION).to(tl.uint32).to(tl.uint64)
    shift = tl.load(row_ptr + DIVISION + 1).to(tl.uint32)
    product = numerator.to(tl.uint32).to(tl.uint64) * factor + factor
    return ((product >> 32).to(tl.uint32) >> shift).to(tl.int32)


@triton.jit
def split(number, size, NEEDED: tl.constexpr):
    """Quotient and remainder of non-negative integers.

    The hardware divides unsigned ones faster.
    """
    if NEEDED:
        quotient = tl.cast(number, tl.uint32) // size.to(tl.uint32)
        return quotient.to(tl.int32), (number - quotient * size).to(tl.int32)
    return number, number * 0


@triton.jit
def times(count, size):
    """count * size in 64 bits. count: 0 to 2**31 - 1, so that its upper half needs no multiply."""
    return (count.to(tl.uint32).to(tl.uint64) * size.to(tl.uint64)).to(tl.int64)


@triton.jit
def layout_place(atom, row_ptr, DEPTH: tl.constexpr, WIDE: tl.constexpr):
    """Where atom `atom` of a page in the chunk lies in a page of the pool, in atoms."""
    OFFSET: tl.constexpr = tl.int64 if WIDE else tl.int32
    place = atom.to(OFFSET)
    if DEPTH > 0:
        outer = divide(atom, row_ptr, OUTER_FACTOR)
        place += outer.to(OFFSET) * tl.load(row_ptr + OUTER_GAP).to(OFFSET)
        if DEPTH == 2:
            rest = atom - outer * tl.load(row_ptr + OUTER_ATOMS).to(tl.int32)
            inner = divide(rest, row_ptr, INNER_FACTOR)
            place += inner.to(OFFSET) * tl.load(row_ptr + INNER_GAP).to(OFFSET)
    return place


@triton.jit
def positions(page_tile, within, PAGES: tl.constexpr, UNITS: tl.constexpr):
    """The position of each unit's page, [1, unit, 1]; [1, 1, 1] if the tile is of one page."""
    if PAGES > 1:
        return page_tile * PAGES + within // UNITS
    else:
        return page_tile + tl.zeros([1, 1, 1], tl.int32)


@triton.jit
def pointers(address, atom, ATOM: tl.constexpr):
    """Pointers to atoms [1, unit, atom] from an address. An atom of 16 bytes is two words."""
    if ATOM == 16:
        words = address.to(tl.pointer_type(tl.int64)) + atom * 2
        return tl.multiple_of(words, [16, 16, 16]) + tl.arange(0, 2)[None, None, :]
    elif ATOM == 8:
        return address.to(tl.pointer_type(tl.int64)) + atom
    elif ATOM == 4:
        return address.to(tl.pointer_type(tl.int32)) + atom
    elif ATOM == 2:
        return address.to(tl.pointer_type(tl.int16)) + atom
    else:
        return address.to(tl.pointer_type(tl.int8)) + atom


@triton.jit
def multiplier(index):
    """Number `index` of `digest.multipliers`."""
    spread = (index + 1) * 0x9E3779B1
    return spread ^ (spread >> 15)


@triton.jit
def digest_terms(data, unit, inside, ATOM: tl.constexpr):
    """The sum of the terms of every unit of `data`, [1, unit, atom], as uint64 [1, unit].

    Units outside the page (`inside` is false) add nothing. A term, the product of two halves plus
    their sum, is one instruction. So the halves are set to zero, and not the term.
    """
    if ATOM == 16:
        word = (unit * 2 + tl.arange(0, 2)[None, None, :]).to(tl.uint32)
        value = data.to(tl.uint64)
    else:
        word = unit.to(tl.uint32)
        if ATOM == 8:
            value = data.to(tl.uint64)
        else:
            low = (data.to(tl.int64) & ((1 << (8 * ATOM)) - 1)).to(tl.uint64)
            shift = (tl.arange(0, 8 // ATOM) * (8 * ATOM)).to(tl.uint64)
            value = tl.expand_dims(tl.sum(low << shift[None, None, :], axis=2), 2)
    low_half = tl.where(inside, value.to(tl.uint32) + multiplier(word * 2), 0)
    high_half = tl.where(inside, (value >> 32).to(tl.uint32) + multiplier(word * 2 + 1), 0)
    low = low_half.to(tl.uint64)
    high = high_half.to(tl.uint64)
    return tl.sum(low * high + ((high << 32) | low), axis=2)


@triton.jit
def move(
    pool, chunk, first, near, place, readable, writable,
    ATOM: tl.constexpr, APART: tl.constexpr, FROM_POOL: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    """Copy a tile between pages at addresses [1, unit, 1] or [1, 1, 1]; return it, [1, unit, atom].

    The atoms are at `near` from `first`; in the pool they are at `place` if they are `APART`.
    `readable` and `writable` are bounds of `near`. An atom that is not readable is 0.
    """
    ahead = tl.cast(first, tl.int64) * ATOM
    in_chunk = pointers(chunk + ahead, near, ATOM)
    in_pool = pointers(pool, place, ATOM) if APART else pointers(pool + ahead, near, ATOM)
    # As wide as the data: else Triton computes the pages again, in the layout of the masks.
    near += tl.zeros(in_chunk.shape, tl.int32)
    data = tl.load(in_pool if FROM_POOL else in_chunk, mask=near < readable, other=0)
    if STORE:
        tl.store(in_chunk if FROM_POOL else in_pool, data, mask=near < writable)
    return data


@triton.jit
def digest_pages(
    pool, chunk, near, page_bytes, readable, writable, row_ptr,
    ATOM: tl.constexpr, PAGES: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    WIDE: tl.constexpr, FROM_POOL: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    """Move whole pages, a tile of units at a time; return the sums of their terms, [page]."""
    UNIT: tl.constexpr = 16 if ATOM == 16 else 8
    # Each thread adds its own units, at least where units are 16 bytes.
    ROWS: tl.constexpr = UNITS // THREADS if UNITS > THREADS else 1
    total = tl.zeros([PAGES, UNITS // ROWS], tl.uint64)
    page_units = ((page_bytes + UNIT - 1) // UNIT).to(tl.int32)
    for first_unit in tl.range(0, page_units, UNITS, num_stages=1):
        first = first_unit * (UNIT // ATOM)
        place = layout_place(first + near, row_ptr, DEPTH, WIDE)
        data = move(pool, chunk, first, near, place, readable - first, writable - first, ATOM,
                    DEPTH > 0, FROM_POOL, STORE)  # fmt: skip
        unit = first_unit + (tl.arange(0, PAGES * UNITS) % UNITS)[None, :, None]
        terms = digest_terms(data, unit, unit < page_units, ATOM)
        total += tl.sum(tl.reshape(terms, [PAGES, ROWS, UNITS // ROWS]), axis=1)
    return tl.sum(total, axis=1)


@triton.jit
def is_page(number, pool_pages):
    """Whether a number is that of a page. Read without its sign, a negative one is too large."""
    if number.dtype == tl.int32:
        return number.to(tl.uint32) < pool_pages.to(tl.uint32)
    else:
        return number.to(tl.uint64) < pool_pages.to(tl.uint64)


@triton.jit
def tell(
    position, good, page_tile, pages, page_ptr, report_ptr, pool_pages,
    PAGES: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """Report the first position in a tile with a page number outside the pool."""
    if FLAT:
        # [1, unit, 1]: each thread looks through its own units first.
        worst = tl.where(good, NO_POSITION, position)
        worst = tl.min(tl.reshape(worst, [position.numel // THREADS, THREADS]), axis=0)
    else:
        position = page_tile * PAGES + tl.arange(0, PAGES)
        number = tl.load(page_ptr + position, mask=position < pages, other=0)
        worst = tl.where(is_page(number, pool_pages), NO_POSITION, position)
    inside = worst < pages
    tl.atomic_min(report_ptr + worst * 0, worst, mask=inside, sem="relaxed")


@triton.jit
def find_pages(
    position, listed, page_tile, pages, row_ptr, page_ptr, report_ptr, pool_pages,
    PAGES: tl.constexpr, FLAT: tl.constexpr, CHECK: tl.constexpr,
):  # fmt: skip
    """Addresses in the pool of the pages at `position`, and whether each number is that of a page.

    The address of another number, or of a position past the last, is never read or written.
    """
    number = tl.load(page_ptr + position, mask=listed)
    pool = tl.load(row_ptr + POOL_ADDRESS) + times(number, tl.load(row_ptr + PAGE_STRIDE))
    good = listed
    if CHECK:
        good = is_page(number, pool_pages)
        tell(position, good, page_tile, pages, page_ptr, report_ptr, pool_pages, PAGES, FLAT)
    return pool, good


@triton.jit
def settle(
    total, key, entry, digest_ptr, position, pages, report_ptr, DIGEST: tl.constexpr,
):  # fmt: skip
    """Write the digests of sums [page], or compare them and set a bit for each that differs."""
    inside = position < pages
    place = entry.to(tl.uint64) + position.to(tl.uint64) * 65536
    value = total + key.to(tl.uint64) + place * DIGEST_PLACE
    value = (value ^ (value >> 30)) * MIX_FIRST
    value = (value ^ (value >> 27)) * MIX_SECOND
    digest = (value ^ (value >> 31)).to(tl.int64)
    if DIGEST == WRITE_DIGEST:
        tl.store(digest_ptr + position, digest, mask=inside)
    else:
        expected = tl.load(digest_ptr + position, mask=inside, other=0)
        bit = tl.full(position.shape, 1, tl.int32) << (position % 32)
        tl.atomic_or(
            report_ptr + 1 + position // 32, bit, mask=inside & (expected != digest), sem="relaxed"
        )


# These values change from chunk to chunk. No variant depends on them, so nothing compiles later.
@triton.jit(do_not_specialize=UNSPECIALIZED)
def copy_kernel(
    table_ptr,  # [entry, peer, column] int64
    peer_ptr,  # [2, peer] int64: bytes from peer 0's chunk, and digests from peer 0's
    page_ptr,  # [page] int32 or int64
    chunk_ptr,  # uint8, peer 0's chunk
    digest_ptr,  # [entry, page] int64: written, or what is expected
    report_ptr,  # int32, see report.report_words
    pool_pages: tl.int32, pages: tl.int32, page_tiles: tl.int32, segments: tl.int32,
    peers: tl.int32, tiles: tl.int32, key: tl.int64,
    ATOM: tl.constexpr, PAGES: tl.constexpr, UNITS: tl.constexpr,
    DEPTH: tl.constexpr,  # how many axes of a page are apart in the pool
    WIDE: tl.constexpr,  # by 2**31 bytes and more
    FLAT: tl.constexpr,  # tiles are of units, whatever page they are in, and PAGES is 1
    FROM_POOL: tl.constexpr, STORE: tl.constexpr, DIGEST: tl.constexpr,
    CHECK: tl.constexpr,  # page numbers have not been checked
    PEERS: tl.constexpr,  # more than one
):  # fmt: skip
    """Take tiles in turn; see the top of the module."""
    UNIT_ATOMS: tl.constexpr = 1 if ATOM == 16 else 8 // ATOM
    within = tl.arange(0, PAGES * UNITS)[None, :, None]
    near = within % UNITS
    if UNIT_ATOMS > 1:
        near = near * UNIT_ATOMS + tl.arange(0, UNIT_ATOMS)[None, None, :]
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        rest, peer = split(tile, peers, PEERS)
        rest, segment = split(rest, segments, PAGES == 1 and not FLAT and DIGEST == NO_DIGEST)
        entry, page_tile = split(rest, page_tiles, True)
        row_ptr = table_ptr + (entry * peers + peer) * COLUMNS
        page_bytes = tl.load(row_ptr + PAGE_BYTES)
        atoms = (page_bytes // ATOM).to(tl.int32)
        chunk = chunk_ptr.to(tl.int64) + times(pages, tl.load(row_ptr + PREFIX_BYTES))
        if FLAT:
            first = page_tile * UNITS
            position = divide(first + near, row_ptr, PAGE_FACTOR)
            atom = first + near - position * atoms
            readable = pages * atoms - first
            listed = near < readable
        else:
            first = segment * UNITS * UNIT_ATOMS
            position = positions(page_tile, within, PAGES, UNITS)
            atom = first + near
            listed = position < pages
            readable = tl.where(listed, atoms - first, 0)
            chunk += times(position, page_bytes)
        digests = digest_ptr + entry.to(tl.int64) * pages
        if PEERS:
            chunk += tl.load(peer_ptr + peer)
            if DIGEST != NO_DIGEST:
                digests += tl.load(peer_ptr + peers + peer)
        pool, writable = chunk, readable
        if FROM_POOL or STORE:
            pool, good = find_pages(position, listed, page_tile, pages, row_ptr, page_ptr,
                                    report_ptr, pool_pages, PAGES, FLAT, CHECK)  # fmt: skip
            if CHECK and FROM_POOL:
                readable = tl.where(good, readable, 0)
            elif CHECK:
                writable = tl.where(good, writable, 0)
        if DIGEST == NO_DIGEST:
            place = layout_place(atom, row_ptr, DEPTH, WIDE)
            move(pool, chunk, first, near, place, readable, writable, ATOM, DEPTH > 0 or FLAT,
                 FROM_POOL, STORE)  # fmt: skip
        else:
            total = digest_pages(
                pool, chunk, near, page_bytes, readable, writable, row_ptr, ATOM, PAGES, UNITS,
                DEPTH, WIDE, FROM_POOL, STORE,
            )  # fmt: skip
            position = page_tile * PAGES + tl.arange(0, PAGES)
            settle(total, key, entry, digests, position, pages, report_ptr, DIGEST)
