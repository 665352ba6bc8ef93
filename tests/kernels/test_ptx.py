"""The emulator of compiled kernels: what it computes, counts and refuses."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.kernels.ptx import Program, PtxError, Requests

HEAD = """
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 source,
	.param .u64 .ptr .global .align 1 target
)
.reqntid 64
{
	ld.param.b64 %rd1, [source];
	ld.param.b64 %rd2, [target];
	mov.u32 %r1, %tid.x;
"""
TAIL = """
	ret;
                                        // -- End function
}
"""


def _run(body: str, source: np.ndarray, target: np.ndarray) -> dict[str, Requests]:
    addresses = [array.ctypes.data for array in (source, target)]
    spans = [(at, at + array.nbytes) for at, array in zip(addresses, (source, target), strict=True)]
    return Program(HEAD + body + TAIL).run(addresses, 1, spans)


def _computed(expression: str, source: np.ndarray) -> np.ndarray:
    """%r9 of each lane, from %r2 that it loads."""
    target = np.zeros(64, np.uint32)
    _run(
        f"""
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;  // the lane's word
	add.s64 %rd5, %rd2, %rd3;
	ld.global.b32 {{ %r2 }}, [ %rd4 + 0 ];
	{expression}
	st.global.b32 [ %rd5 + 0 ], {{ %r9 }};
        """,
        source, target,
    )  # fmt: skip
    return target


WORDS = np.random.default_rng(1).integers(0, 1 << 32, 64, dtype=np.uint32)
SIGNED = WORDS.view(np.int32)
LANES = np.arange(64, dtype=np.uint32)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("add.s32 %r9, %r2, -1;", WORDS - np.uint32(1)),
        ("mul.hi.u32 %r9, %r2, %r2;", (WORDS.astype(np.uint64) ** 2 >> np.uint64(32))),
        ("mul.wide.s32 %rd8, %r2, -3;\n mov.b64 {%r8, %r9}, %rd8;",
         (SIGNED.astype(np.int64) * -3) >> 32),
        ("mad.lo.s32 %r9, %r2, %r2, %r1;", WORDS * WORDS + LANES),
        ("shr.s32 %r9, %r2, 40;", SIGNED >> 31),
        ("shl.b32 %r9, %r2, 32;", LANES * 0),
        ("bfe.u32 %r9, %r2, 5, 7;", (WORDS >> 5) & 127),
        ("bfe.s32 %r9, %r2, 0, 16;", WORDS.astype(np.int16)),
        ("prmt.b32 %r9, %r2, 0, 0x0123U;", WORDS.byteswap()),
        ("min.s32 %r9, %r2, 7;", np.minimum(SIGNED, 7)),
        ("setp.lt.u32 %p1, %r2, 0x80000000;\n selp.b32 %r9, 1, %r1, %p1;",
         np.where(WORDS < 1 << 31, 1, LANES)),
        ("shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;", WORDS[LANES ^ 1]),
        ("redux.sync.max.s32 %r9, %r2, -1;", np.repeat(SIGNED.reshape(2, 32).max(axis=1), 32)),
        ("mov.u32 %r9, 5;\n setp.gt.s32 %p1, %r1, 31;\n @%p1 mov.u32 %r9, 6;", 5 + (LANES > 31)),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs1, 0f44610000, 0f3F800000;\n cvt.u32.u16 %r9, %rs1;",
         LANES * 0 + 0x7E38),  # 900 and 1
    ],
)  # fmt: skip
def test_instructions_compute_their_definition(expression: str, want: np.ndarray) -> None:
    assert np.array_equal(_computed(expression, WORDS), want.astype(np.uint32))


def test_a_loop_ends_when_all_lanes_agree() -> None:
    body = """mov.u32 %r9, 0;
$L__BB0_1:
	add.s32 %r9, %r9, 3;
	setp.lt.u32 %p1, %r9, 30;
	@%p1 bra $L__BB0_1;"""
    assert (_computed(body, WORDS) == 30).all()
    with pytest.raises(PtxError, match="lanes disagree on a branch: @%p1 bra"):
        _computed(body.replace("%r9, 30", "%r2, 30"), np.arange(64, dtype=np.uint32))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (".b32 { %r9 }, [ %rd1 + 256 ];", "outside of all pools, chunks and digests: ld.global"),
        (".b32 { %r9 }, [ %rd1 + -4 ];", "outside of all pools"),
        (".b32 { %r9 }, [ %rd1 + 2 ];", "not aligned to 4 bytes"),
        (".v2.b64 { %rd8, %rd9 }, [ %rd1 + 8 ];", "not aligned to 16 bytes"),
        (".v2.b64 { %rd8, %rd9 }, [ %rd1 + 256 ];", "outside of all pools"),
    ],
)
def test_accesses_that_a_gpu_would_fault_on(step: str, message: str) -> None:
    memory = np.zeros(80, np.uint32)
    source = memory[-memory.ctypes.data % 16 // 4 :][:64]
    with pytest.raises(PtxError, match=message):
        _computed(f"mov.u32 %r9, 0;\n ld.global{step}", source)


def test_an_instruction_that_is_not_known_is_an_error() -> None:
    with pytest.raises(PtxError, match=r"not known here.*: popc\.b32"):
        _computed("popc.b32 %r9, %r2;", WORDS)


@pytest.mark.parametrize(("apart", "sectors", "lines"), [(16, 32, 8), (32, 64, 16), (256, 64, 64)])
def test_requests_are_counted(apart: int, sectors: int, lines: int) -> None:
    """Two warps, each lane 16 bytes, so far from those of the next."""
    memory = np.zeros(64 * 256 + 128, np.uint8)
    source = memory[-memory.ctypes.data % 128 :][: 64 * 256]
    counts = _run(
        f"""
	mul.wide.u32 %rd3, %r1, {apart};
	add.s64 %rd4, %rd1, %rd3;
	ld.global.v4.b32 {{ %r4, %r5, %r6, %r7 }}, [ %rd4 + 0 ];
        """,
        source, source,
    )  # fmt: skip
    assert counts == {"ld16": Requests(2, 64, sectors, lines)}
