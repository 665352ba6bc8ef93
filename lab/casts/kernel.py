"""The cast kernel: 16-bit floats of pages to an fp8 chunk with scales, or back.

A program takes pages of an entry in turn: whole, or one head of them where every head has its
own scale. Where the scale follows from the data the page is read twice, the second time from
cache. The arithmetic is that of `fp8`, and so is its reference; codes are compared exactly.

Elements move in units of 16: 32 bytes in the pool, 16 in the chunk. Where addresses or rows are no
multiples of that they move one by one. Cost: 3 bytes of memory traffic an element.
"""

# Triton's own manner: constants in capitals, and a kernel's arguments are all it knows.
# ruff: noqa: N803, N806, PLR0912, PLR0913, PLR0917, RET505, SIM300

# Annotations are types that Triton reads, so they stay values here, and mypy knows none of them.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import triton
import triton.language as tl

from pdproto.kernels.page_copy import divide, is_page, split, times

POOL_ADDRESS = tl.constexpr(0)
PAGE_STRIDE = tl.constexpr(1)  # bytes between pages of the pool
PAGE_BYTES = tl.constexpr(2)  # of a page in the chunk: one byte an element
PREFIX_BYTES = tl.constexpr(3)  # of a page of all entries before this one, in the chunk
PREFIX_SCALES = tl.constexpr(4)  # of a page of all entries before this one
PAGE_SCALES = tl.constexpr(5)  # of one page
SCALE_UNITS = tl.constexpr(6)  # units of one scale of one page
GROUP_STRIDE = tl.constexpr(7)  # bytes from one scale's elements to the next one's, in the pool
GROUP_STEP = tl.constexpr(8)  # and in the chunk
OUTER_UNITS = tl.constexpr(9)  # units per step of the outer axis, and how to divide by it
OUTER_FACTOR = tl.constexpr(10)
OUTER_SHIFT = tl.constexpr(11)
OUTER_GAP = tl.constexpr(12)  # units that a step is longer in the pool than in the order of units
CHUNK_GAP = tl.constexpr(13)  # and in the chunk
INNER_FACTOR = tl.constexpr(14)
INNER_SHIFT = tl.constexpr(15)
INNER_GAP = tl.constexpr(16)
COLUMNS = tl.constexpr(17)

STATIC = tl.constexpr(0)
PAGE = tl.constexpr(1)
PAGE_HEAD = tl.constexpr(2)

UNSPECIALIZED = [
    "table_ptr", "page_ptr", "chunk_ptr", "static_ptr", "report_ptr", "scale_offset",
    "pool_pages", "pages", "groups", "tiles",
]  # fmt: skip


@triton.jit
def places(unit, row_ptr, DEPTH: tl.constexpr, WIDE: tl.constexpr, APART: tl.constexpr):
    """The places of units in the page of the pool and in that of the chunk, in units."""
    OFFSET: tl.constexpr = tl.int64 if WIDE else tl.int32
    in_pool = unit.to(OFFSET)
    in_chunk = unit
    if DEPTH > 0:
        outer = divide(unit, row_ptr, OUTER_FACTOR)
        in_pool += outer.to(OFFSET) * tl.load(row_ptr + OUTER_GAP).to(OFFSET)
        if APART:
            in_chunk += outer * tl.load(row_ptr + CHUNK_GAP).to(tl.int32)
        if DEPTH == 2:
            rest = unit - outer * tl.load(row_ptr + OUTER_UNITS).to(tl.int32)
            inner = divide(rest, row_ptr, INNER_FACTOR)
            in_pool += inner.to(OFFSET) * tl.load(row_ptr + INNER_GAP).to(OFFSET)
    return in_pool, in_chunk


@triton.jit
def elements(address, place, KIND: tl.constexpr, ELEMENTS: tl.constexpr):
    """Units at [unit, 1] places from an address as pointers [unit, element]."""
    pointer = address.to(tl.pointer_type(KIND)) + place * ELEMENTS
    if ELEMENTS > 1:
        pointer = tl.multiple_of(pointer, [16, 16])
    return pointer + tl.arange(0, ELEMENTS)[None, :]


@triton.jit
def largest_finite(
    pool, units, row_ptr, KIND: tl.constexpr, ELEMENTS: tl.constexpr, UNITS: tl.constexpr,
    DEPTH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The largest finite magnitude of `units` units at address `pool`, as float32.

    The bits of floats without their signs, read as integers, are in the order of the magnitudes. A
    constant is added to two elements at a time: it makes infinities and NaNs negative in 16 bits,
    so that the comparison of signed integers leaves them out.
    """
    PAIR: tl.constexpr = 2 if ELEMENTS > 1 else 1
    LIFT: tl.constexpr = 0x400 if KIND == tl.float16 else 0x80
    WORD: tl.constexpr = tl.int32 if ELEMENTS > 1 else tl.int16
    near = tl.arange(0, UNITS)[:, None]
    upper = tl.full([UNITS], LIFT << 16, tl.int32)
    lower = upper
    for first in tl.range(0, units, UNITS, num_stages=1):
        place, _ = places(first + near, row_ptr, DEPTH, WIDE, False)
        words = tl.load(elements(pool, place, WORD, ELEMENTS // PAIR), mask=first + near < units,
                        other=0)  # fmt: skip
        words = (words.to(tl.int32) & 0x7FFF7FFF) + LIFT * 0x10001
        # The half below takes part in the comparison of an upper one, and is dropped after it.
        upper = tl.maximum(upper, tl.max(words, axis=1))
        lower = tl.maximum(lower, tl.max(words << 16, axis=1))
    bits = (tl.max(tl.maximum(upper, lower), axis=0) >> 16) - LIFT
    if KIND == tl.float16:
        return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        return (bits << 16).to(tl.float32, bitcast=True)


@triton.jit
def scale_of(largest):
    """The scale of data whose largest finite magnitude is known, as `fp8.scale_for`."""
    scale = tl.maximum(tl.div_rn(largest, 448.0), 1.1754943508222875e-38)
    return tl.where(largest == 0, 1.0, scale)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def cast_kernel(
    table_ptr,  # [entry, column] int64
    page_ptr,  # [page] int32 or int64
    chunk_ptr,  # uint8
    static_ptr,  # [entry] float32
    report_ptr,  # int32, see report.report_words
    scale_offset: tl.int64,  # bytes to the scales of the chunk
    pool_pages: tl.int32,
    pages: tl.int32,
    groups: tl.int32,  # the most scales of a page of any entry
    tiles: tl.int32,
    KIND: tl.constexpr,  # tl.bfloat16 or tl.float16
    ELEMENTS: tl.constexpr,  # of a unit: 16, or 1
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,  # how many axes of a scale's elements are apart in pool or chunk
    WIDE: tl.constexpr,  # by 2**31 bytes and more
    APART: tl.constexpr,  # the outer one in the chunk
    SCALE: tl.constexpr,
    TO_CHUNK: tl.constexpr,
    CHECK: tl.constexpr,
):
    near = tl.arange(0, UNITS)[:, None]
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        rest, group = split(tile, groups, SCALE == PAGE_HEAD)
        entry, position = split(rest, pages, True)
        row_ptr = table_ptr + entry * COLUMNS
        page_scales = tl.load(row_ptr + PAGE_SCALES)
        # An entry with fewer heads than another has nothing for the later groups.
        units = tl.where(group < page_scales, tl.load(row_ptr + SCALE_UNITS), 0).to(tl.int32)
        readable = units
        writable = units
        page = tl.load(page_ptr + position)
        if CHECK:
            good = is_page(page, pool_pages)
            if TO_CHUNK:
                readable = tl.where(good, units, 0)
            else:
                writable = tl.where(good, units, 0)
            tl.atomic_min(report_ptr, position, mask=good == 0, sem="relaxed")
        pool = tl.load(row_ptr + POOL_ADDRESS) + times(page, tl.load(row_ptr + PAGE_STRIDE))
        chunk = chunk_ptr.to(tl.int64) + times(pages, tl.load(row_ptr + PREFIX_BYTES))
        chunk += times(position, tl.load(row_ptr + PAGE_BYTES))
        if SCALE == PAGE_HEAD:
            pool += group * tl.load(row_ptr + GROUP_STRIDE)
            chunk += group * tl.load(row_ptr + GROUP_STEP)

        scale_ptr = (chunk_ptr.to(tl.int64) + scale_offset).to(tl.pointer_type(tl.float32))
        if SCALE == STATIC:
            scale_ptr += entry
        else:
            scale_ptr += pages * tl.load(row_ptr + PREFIX_SCALES) + position * page_scales + group
        if TO_CHUNK:
            if SCALE == STATIC:
                scale = tl.load(static_ptr + entry)
            else:
                scale = scale_of(
                    largest_finite(pool, readable, row_ptr, KIND, ELEMENTS, UNITS, DEPTH, WIDE)
                )
            tl.store(scale_ptr, scale, mask=units > 0)
            inverse = tl.div_rn(1.0, scale)
        else:
            scale = tl.load(scale_ptr, mask=units > 0, other=1.0)
        for first in tl.range(0, units, UNITS, num_stages=1):
            unit = first + near
            in_pool, in_chunk = places(unit, row_ptr, DEPTH, WIDE, APART)
            in_pages = elements(pool, in_pool, KIND, ELEMENTS)
            codes = elements(chunk, in_chunk, tl.uint8, ELEMENTS)
            if TO_CHUNK:
                data = tl.load(in_pages, mask=unit < readable, other=0).to(tl.float32) * inverse
                # The hardware saturates too; this also fixes what an infinity becomes.
                data = tl.clamp(data, -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)
                code = data.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
                tl.store(codes, code, mask=unit < writable)
            else:
                code = tl.load(codes, mask=unit < units, other=0)
                data = code.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale
                tl.store(in_pages, data.to(KIND), mask=unit < writable)
