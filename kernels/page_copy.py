"""The copy kernel: pages to chunk, chunk to pages, or neither and only their digests.

One launch moves every entry of every peer. The work is cut into tiles of PAGES pages by UNITS
units of one entry for one peer; a program takes tiles in turn until none is left, so that the
number of programs is free. A unit is 16 bytes where all addresses, strides and sizes allow, and
8 bytes otherwise, moved in atoms of ATOM bytes, the widest access that is aligned. Bytes are
bytes: element types do not matter, and NaN payloads survive.

What differs between entries and peers comes from a table, one row per entry and peer in the
columns below, so that any mixture of geometries is one launch of one compiled kernel.

Cost: every byte is read once and written once, and 8 bytes per page and entry for a digest. The
reference is `reference.pack_reference`, and equality is exact.
"""

# Triton's own manner: constants in capitals, and a kernel's arguments are all it knows.
# ruff: noqa: N803, N806, PLR0913, PLR0917, RET505, SIM108

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
OUTER_STRIDE = tl.constexpr(7)  # bytes per step of the outer axis in the pool
INNER_ATOMS = tl.constexpr(8)
INNER_FACTOR = tl.constexpr(9)
INNER_SHIFT = tl.constexpr(10)
INNER_STRIDE = tl.constexpr(11)
PAGE_FACTOR = tl.constexpr(12)
PAGE_SHIFT = tl.constexpr(13)
COLUMNS = tl.constexpr(14)

UNSPECIALIZED = [
    "table_ptr", "peer_ptr", "page_ptr", "chunk_ptr", "digest_ptr", "report_ptr", "pool_pages",
    "pages", "page_tiles", "segments", "peers", "tiles", "key",
]  # fmt: skip

NO_DIGEST = tl.constexpr(0)
WRITE_DIGEST = tl.constexpr(1)
COMPARE_DIGEST = tl.constexpr(2)


@triton.jit
def divide(numerator, row_ptr, DIVISION: tl.constexpr):
    """Divide by a number the host knew, see `table.division`: exact below 2**31."""
    factor = tl.load(row_ptr + DIVISION).to(tl.uint32).to(tl.uint64)
    shift = tl.load(row_ptr + DIVISION + 1).to(tl.uint32)
    product = numerator.to(tl.uint32).to(tl.uint64) * factor + factor
    return ((product >> 32).to(tl.uint32) >> shift).to(tl.int32)


@triton.jit
def pool_offset(atom, row_ptr, ATOM: tl.constexpr, DEPTH: tl.constexpr, WIDE: tl.constexpr):
    """Byte offset in a page of the pool of atom `atom` of the page in the chunk."""
    if DEPTH == 0:
        return atom.to(tl.int64) * ATOM
    else:
        OFFSET: tl.constexpr = tl.int64 if WIDE else tl.int32
        outer = divide(atom, row_ptr, OUTER_FACTOR)
        rest = atom - outer * tl.load(row_ptr + OUTER_ATOMS).to(tl.int32)
        offset = outer.to(OFFSET) * tl.load(row_ptr + OUTER_STRIDE).to(OFFSET)
        if DEPTH == 2:
            inner = divide(rest, row_ptr, INNER_FACTOR)
            rest -= inner * tl.load(row_ptr + INNER_ATOMS).to(tl.int32)
            offset += inner.to(OFFSET) * tl.load(row_ptr + INNER_STRIDE).to(OFFSET)
        return (offset + rest * ATOM).to(tl.int64)


@triton.jit
def pointers(address, ATOM: tl.constexpr):
    """[page, unit, atom] addresses as pointers; a 16-byte atom is two words side by side."""
    if ATOM == 16:
        words = tl.multiple_of(address.to(tl.pointer_type(tl.int64)), [16, 16, 16])
        return words + tl.arange(0, 2)[None, None, :]
    elif ATOM == 8:
        return address.to(tl.pointer_type(tl.int64))
    elif ATOM == 4:
        return address.to(tl.pointer_type(tl.int32))
    elif ATOM == 2:
        return address.to(tl.pointer_type(tl.int16))
    else:
        return address.to(tl.pointer_type(tl.int8))


@triton.jit
def multiplier(index):
    """Number `index` of `digest.multipliers`."""
    spread = (index + 1) * 0x9E3779B1
    return spread ^ (spread >> 15)


@triton.jit
def digest_terms(data, unit, inside, ATOM: tl.constexpr):
    """The term of every word of `data`, [page, unit, atom], as uint64 [page, unit, word].

    Words that are not `inside` the page have none. Terms are halves times halves, so that a
    product and its sum are one instruction.
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
    low_half = value.to(tl.uint32) + multiplier(word * 2)
    high_half = (value >> 32).to(tl.uint32) + multiplier(word * 2 + 1)
    return tl.where(inside, low_half.to(tl.uint64) * high_half.to(tl.uint64), 0)


@triton.jit
def move(
    source, target, unit, readable, writable, row_ptr,
    ATOM: tl.constexpr, DEPTH: tl.constexpr, WIDE: tl.constexpr, FROM_POOL: tl.constexpr,
    STORE: tl.constexpr,
):  # fmt: skip
    """Copy units of pages, [page, unit, 1], between addresses [page, 1, 1]; return the data.

    `readable` and `writable` are in atoms of a page, [page, 1, 1]; what is not readable is 0.
    """
    if ATOM == 16:
        atom = unit
    else:
        atom = unit * (8 // ATOM) + tl.arange(0, 8 // ATOM)[None, None, :]
    in_pool = pool_offset(atom, row_ptr, ATOM, DEPTH, WIDE)
    in_chunk = atom.to(tl.int64) * ATOM
    from_address = source + (in_pool if FROM_POOL else in_chunk)
    data = tl.load(pointers(from_address, ATOM), mask=atom < readable, other=0)
    if STORE:
        to_address = target + (in_chunk if FROM_POOL else in_pool)
        tl.store(pointers(to_address, ATOM), data, mask=atom < writable)
    return data


@triton.jit
def digest_pages(
    source, target, page_bytes, readable, writable, row_ptr,
    ATOM: tl.constexpr, PAGES: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    WIDE: tl.constexpr, FROM_POOL: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    """Move whole pages, a tile of units at a time; return the sums of their terms, [page]."""
    UNIT: tl.constexpr = 16 if ATOM == 16 else 8
    total = tl.zeros([PAGES, UNITS, UNIT // 8], tl.uint64)
    page_units = ((page_bytes + UNIT - 1) // UNIT).to(tl.int32)
    for first in tl.range(0, page_units, UNITS, num_stages=1):
        unit = first + tl.arange(0, UNITS)[None, :, None]
        data = move(source, target, unit, readable, writable, row_ptr, ATOM, DEPTH, WIDE,
                    FROM_POOL, STORE)  # fmt: skip
        total += digest_terms(data, unit, unit < page_units, ATOM)
    return tl.sum(tl.sum(total, axis=2), axis=1).to(tl.int64)


@triton.jit
def find_pages(
    position, listed, row_ptr, page_ptr, report_ptr, pool_pages, CHECK: tl.constexpr
):  # fmt: skip
    """Addresses in the pool of the pages at `position`, and whether each is a page at all.

    A page number that no pool has is reported and stands for page 0, which is never touched.
    """
    page = tl.load(page_ptr + position, mask=listed, other=0).to(tl.int64)
    bad = page < 0
    if CHECK:
        bad = bad | (page >= pool_pages)
        page = tl.where(bad, 0, page)
        tl.atomic_min(report_ptr + position * 0, position, mask=bad)
    pool = tl.load(row_ptr + POOL_ADDRESS)
    return pool + page * tl.load(row_ptr + PAGE_STRIDE), bad


@triton.jit
def settle(digest, digest_ptr, position, pages, report_ptr, DIGEST: tl.constexpr):
    """Write digests [page], or compare them and set a bit for each page that differs."""
    inside = position < pages
    if DIGEST == WRITE_DIGEST:
        tl.store(digest_ptr + position, digest, mask=inside)
    else:
        expected = tl.load(digest_ptr + position, mask=inside, other=0)
        bit = tl.full(position.shape, 1, tl.int32) << (position % 32)
        tl.atomic_or(report_ptr + 1 + position // 32, bit, mask=inside & (expected != digest))


# Values change from chunk to chunk, so no variant may depend on one: nothing compiles later.
@triton.jit(do_not_specialize=UNSPECIALIZED)
def copy_kernel(
    table_ptr,  # [entry, peer, column] int64
    peer_ptr,  # [2, peer] int64: bytes from peer 0's chunk, and digests from peer 0's
    page_ptr,  # [page] int32 or int64
    chunk_ptr,  # uint8, peer 0's chunk
    digest_ptr,  # [entry, page] int64: written, or what is expected
    report_ptr,  # int32, see report.report_words
    pool_pages: tl.int32,
    pages: tl.int32,
    page_tiles: tl.int32,
    segments: tl.int32,
    peers: tl.int32,
    tiles: tl.int32,
    key: tl.int64,
    ATOM: tl.constexpr, PAGES: tl.constexpr, UNITS: tl.constexpr,
    DEPTH: tl.constexpr,  # how many axes of a page are apart in the pool
    WIDE: tl.constexpr,  # by 2**31 bytes and more
    FLAT: tl.constexpr,  # tiles are of units, whatever page they are in, and PAGES is 1
    FROM_POOL: tl.constexpr, STORE: tl.constexpr, DIGEST: tl.constexpr,
    CHECK: tl.constexpr,  # page numbers have not been checked
    PEERS: tl.constexpr,  # more than one
):  # fmt: skip
    """Take tiles in turn; see the top of the module."""
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        peer = tile % peers if PEERS else 0
        rest = tile // peers if PEERS else tile
        segment = rest % segments
        page_tile = (rest // segments) % page_tiles
        entry = rest // segments // page_tiles
        row_ptr = table_ptr + (entry * peers + peer) * COLUMNS
        page_bytes = tl.load(row_ptr + PAGE_BYTES)
        atoms = (page_bytes // ATOM).to(tl.int32)
        unit = segment * UNITS + tl.arange(0, UNITS)[None, :, None]
        position = page_tile * PAGES + tl.arange(0, PAGES)[:, None, None]
        if FLAT:
            unit += page_tile * UNITS
            position = divide(unit, row_ptr, PAGE_FACTOR)
            unit -= position * atoms
        listed = position < pages

        chunk = chunk_ptr.to(tl.int64) + pages * tl.load(row_ptr + PREFIX_BYTES)
        digests = digest_ptr + entry.to(tl.int64) * pages
        if PEERS:
            chunk += tl.load(peer_ptr + peer)
            if DIGEST != NO_DIGEST:
                digests += tl.load(peer_ptr + peers + peer)
        in_chunk = chunk + position * page_bytes
        readable = tl.where(listed, atoms, 0)
        writable = readable
        in_pool = in_chunk
        if FROM_POOL or STORE:
            in_pool, bad = find_pages(
                position, listed, row_ptr, page_ptr, report_ptr, pool_pages, CHECK
            )
            if CHECK and FROM_POOL:
                readable = tl.where(bad, 0, readable)
            elif CHECK:
                writable = tl.where(bad, 0, writable)
        source = in_pool if FROM_POOL else in_chunk
        target = in_chunk if FROM_POOL else in_pool
        if DIGEST == NO_DIGEST:
            move(source, target, unit, readable, writable, row_ptr, ATOM, DEPTH, WIDE, FROM_POOL,
                 STORE)  # fmt: skip
        else:
            terms = digest_pages(
                source, target, page_bytes, readable, writable, row_ptr,
                ATOM, PAGES, UNITS, DEPTH, WIDE, FROM_POOL, STORE,
            )  # fmt: skip
            position = page_tile * PAGES + tl.arange(0, PAGES)
            settle(terms + key, digests, position, pages, report_ptr, DIGEST)
