"""The cast kernel: 16-bit floats of pages to an fp8 chunk with scales, or back.

A program takes pages of an entry in turn: whole, or one head of them where every head has its
own scale. Where the scale follows from the data the page is read twice, the second time from
cache. The arithmetic is that of `fp8`, and so is its reference; codes are compared exactly.

Elements move in units of 16, 32 bytes in the pool and 16 in the chunk, or one by one where
addresses or rows are no multiples of that. Cost: 3 bytes of memory traffic an element.
"""

# Triton's own manner: constants in capitals, and a kernel's arguments are all it knows.
# ruff: noqa: N803, PLR0912, PLR0913, PLR0915, PLR0917

# Annotations are types that Triton reads, so they stay values here, and mypy knows none of them.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import triton
import triton.language as tl

from pdproto.kernels.page_copy import divide

POOL_ADDRESS = tl.constexpr(0)
PAGE_STRIDE = tl.constexpr(1)  # bytes between pages of the pool
PAGE_BYTES = tl.constexpr(2)  # of a page in the chunk: one byte an element
PREFIX_BYTES = tl.constexpr(3)  # of a page of all entries before this one, in the chunk
PREFIX_SCALES = tl.constexpr(4)  # of a page of all entries before this one
TOKEN_STRIDE = tl.constexpr(5)  # bytes in the pool
HEAD_STRIDE = tl.constexpr(6)
TOKEN_STEP = tl.constexpr(7)  # bytes in the chunk
HEAD_STEP = tl.constexpr(8)
TOKEN_UNITS = tl.constexpr(9)  # units of one token of one scale, and how to divide by it
TOKEN_FACTOR = tl.constexpr(10)
TOKEN_SHIFT = tl.constexpr(11)
ROW_UNITS = tl.constexpr(12)  # units of one head of one token
ROW_FACTOR = tl.constexpr(13)
ROW_SHIFT = tl.constexpr(14)
SCALE_UNITS = tl.constexpr(15)  # units of one scale of one page
PAGE_SCALES = tl.constexpr(16)  # of one page
COLUMNS = tl.constexpr(17)

STATIC = tl.constexpr(0)
PAGE = tl.constexpr(1)
PAGE_HEAD = tl.constexpr(2)

INFINITY = tl.constexpr(float("inf"))

UNSPECIALIZED = [
    "table_ptr", "page_ptr", "chunk_ptr", "static_ptr", "report_ptr", "scale_offset",
    "pool_pages", "pages", "groups", "tiles",
]  # fmt: skip


@triton.jit
def places(unit, group, row_ptr, ELEMENTS: tl.constexpr):
    """Byte offsets, in the pool's page and in the chunk's, of the first elements of units."""
    token = divide(unit, row_ptr, TOKEN_FACTOR)
    rest = unit - token * tl.load(row_ptr + TOKEN_UNITS).to(tl.int32)
    head = divide(rest, row_ptr, ROW_FACTOR)
    column = (rest - head * tl.load(row_ptr + ROW_UNITS).to(tl.int32)) * ELEMENTS
    token = token.to(tl.int64)
    head = (head + group).to(tl.int64)
    in_pool = token * tl.load(row_ptr + TOKEN_STRIDE) + head * tl.load(row_ptr + HEAD_STRIDE)
    in_chunk = token * tl.load(row_ptr + TOKEN_STEP) + head * tl.load(row_ptr + HEAD_STEP)
    return in_pool + column * 2, in_chunk + column


@triton.jit
def elements(address, KIND: tl.constexpr, ELEMENTS: tl.constexpr):
    """[unit, 1] addresses as pointers [unit, element]."""
    pointer = address.to(tl.pointer_type(KIND))
    if ELEMENTS == 16:
        pointer = tl.multiple_of(pointer, [16, 16])
    return pointer + tl.arange(0, ELEMENTS)[None, :]


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
    SCALE: tl.constexpr,
    TO_CHUNK: tl.constexpr,
    CHECK: tl.constexpr,
):
    unit_in_tile = tl.arange(0, UNITS)[:, None]
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        group = tile % groups
        position = (tile // groups) % pages
        entry = tile // groups // pages
        row_ptr = table_ptr + entry * COLUMNS
        page_scales = tl.load(row_ptr + PAGE_SCALES)
        # An entry with fewer heads than another has nothing for the later groups.
        units = tl.where(group < page_scales, tl.load(row_ptr + SCALE_UNITS), 0).to(tl.int32)
        readable = units
        writable = units
        page = tl.load(page_ptr + position).to(tl.int64)
        if CHECK:
            bad = (page < 0) | (page >= pool_pages)
            page = tl.where(bad, 0, page)
            if TO_CHUNK:
                readable = tl.where(bad, 0, units)
            else:
                writable = tl.where(bad, 0, units)
            tl.atomic_min(report_ptr, position, mask=bad)
        pool = tl.load(row_ptr + POOL_ADDRESS) + page * tl.load(row_ptr + PAGE_STRIDE)
        chunk = chunk_ptr.to(tl.int64) + pages * tl.load(row_ptr + PREFIX_BYTES)
        chunk += position * tl.load(row_ptr + PAGE_BYTES)

        scale_ptr = (chunk_ptr.to(tl.int64) + scale_offset).to(tl.pointer_type(tl.float32))
        if SCALE == STATIC:
            scale_ptr += entry
        else:
            scale_ptr += pages * tl.load(row_ptr + PREFIX_SCALES) + position * page_scales + group
        if TO_CHUNK:
            if SCALE == STATIC:
                scale = tl.load(static_ptr + entry)
            else:
                largest = tl.zeros([UNITS, ELEMENTS], tl.float32)
                for first in tl.range(0, readable, UNITS, num_stages=1):
                    unit = first + unit_in_tile
                    in_pool, _ = places(unit, group, row_ptr, ELEMENTS)
                    source = elements(pool + in_pool, KIND, ELEMENTS)
                    data = tl.load(source, mask=unit < readable, other=0).to(tl.float32)
                    magnitude = tl.abs(data)
                    largest = tl.maximum(largest, tl.where(magnitude < INFINITY, magnitude, 0.0))
                scale = scale_of(tl.max(tl.max(largest, axis=1), axis=0))
            tl.store(scale_ptr, scale, mask=units > 0)
            inverse = tl.div_rn(1.0, scale)
        else:
            scale = tl.load(scale_ptr, mask=units > 0, other=1.0)
        for first in tl.range(0, units, UNITS, num_stages=1):
            unit = first + unit_in_tile
            in_pool, in_chunk = places(unit, group, row_ptr, ELEMENTS)
            in_pages = elements(pool + in_pool, KIND, ELEMENTS)
            codes = elements(chunk + in_chunk, tl.uint8, ELEMENTS)
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
