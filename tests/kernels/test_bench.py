"""The benchmark's own parts: what it prints and writes, on tiny cases. No test looks at times."""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import pytest

from lab.bench import host
from lab.bench.cases import CASES, MORE, SMALL, Case, Listing, Operation
from lab.bench.driver import Kernels, LeftOutError, Runtime, index_option
from lab.bench.report import Results, Row, markdown
from lab.verbs import bench
from pdproto.kernels.plan import HeadRange, Scale
from tests.kernels import cuda_host
from tests.skips import NO_GPU


def _parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    return parser.parse_args(arguments)


def test_the_cpu_run_prints_and_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "CASES", (("tiny", 2, 8, 4, 64, 3, 0.7),))
    monkeypatch.setattr(host, "ROUNDS", 1)
    monkeypatch.setattr(host, "SMALL", ((2, 4, 64, 2),))
    json_file, markdown_file = tmp_path / "r.json", tmp_path / "r.md"
    arguments = _parsed("--device", "cpu", "--json", str(json_file), "--markdown",
                        str(markdown_file))  # fmt: skip
    assert bench.run(arguments) == 0
    printed = capsys.readouterr().out
    assert printed == markdown_file.read_text()
    told = json.loads(json_file.read_text())
    operations = [row["operation"] for row in told["rows"]]
    assert operations == ["pack", "unpack", "pack and digest", "unpack and verify"]
    assert all(row["payload_bytes"] == 2 * 3 * 4 * 64 and row["us"] > 0 for row in told["rows"])
    assert len(told["numbers"]) == 4


def test_a_gpu_that_is_not_there_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "_cuda", lambda: False)
    assert bench.run(_parsed("--device", "cuda")) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_a_table_shows_fractions_goals_and_others() -> None:
    row = Row("pack", "a case", 2_000_000, 4.0, 0.912, 0.9, 0.93, 0.95, {"by element": 0.5})
    row.left_out["a batch"] = "no library"
    text = markdown(Results({"GPU": "one"}, [row, row], {"host time": "3 us"}, ["not all"]))
    assert "* GPU: one" in text
    assert (
        "| pack | a case | 2.0 MB | 4.0 us | 500.0 GB/s | **0.912** | 0.900-0.930 | 0.95"
        " | by element 0.50 |" in text
    )
    assert "| host time | 3 us |" in text
    assert text.endswith("\n* not all\n* without a batch in 2 of 2 cases: no library\n")


def test_cases_are_chosen_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "CASES", tuple(
        (name, 2, 8, 4, 64, 3, 0.7) for name in ("first of all", "second", "third of all")
    ))  # fmt: skip
    monkeypatch.setattr(host, "ROUNDS", 1)
    assert bench.run(_parsed("--device", "cpu", "--cases", "OF ALL")) == 0
    printed = capsys.readouterr().out
    assert ("first" in printed, "second" in printed, "third" in printed) == (True, False, True)
    assert "entries" not in printed
    assert bench.run(_parsed("--device", "cpu", "--cases", "second", "fourth")) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "no case with 'fourth' in its name, of: first of all; second" in told.err


def test_figures_from_before_an_error_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def units(**_: object) -> dict[str, Any]:
        row = Row("pack", "the first", 1, 1.0, 1.0, 1.0, 1.0)
        return {"one": lambda results: results.rows.append(row), "two": lambda _: 1 // 0}

    monkeypatch.setattr(host, "units", units)
    with pytest.raises(ZeroDivisionError):
        bench.run(_parsed("--device", "cpu"))
    assert "| pack | the first |" in capsys.readouterr().out


def test_cases_count_their_bytes() -> None:
    by_name = {(case.operation.value, case.name): case for case in CASES}
    llama = by_name["pack", "32 KiB pages"]
    assert llama.payload_bytes == 160 * 8192 * 8 * 256
    assert by_name["pack", "one head of eight"].payload_bytes * 8 == llama.payload_bytes
    assert by_name["pack as fp8", "static scale"].traffic_bytes == 1.5 * llama.payload_bytes
    assert by_name["digest a chunk", "32 KiB pages"].traffic_bytes == llama.payload_bytes
    assert [case.payload_bytes for case in SMALL] == [655_360, 5_242_880]


def test_cases_cover_the_promised_sizes_and_fit_a_gpu() -> None:
    every = (*CASES, *MORE)
    assert len({case.title for case in every}) == len(every)
    assert {case.listing for case in every} == set(Listing)
    assert {case.index_bits for case in every} == {32, 64}
    assert {case.base_bytes for case in every} == {0, 2, 4, 8}
    assert {case.entries for case in every} >= {61, 96, 160, 188}
    sliced = {(case.heads, *((peer.count) for peer in case.peers)) for case in every if case.peers}
    assert sliced == {(8, 1), (8, 2), (8, 4), (12, 3), (8, *[1] * 8), (8, *[2] * 4)}
    assert any(case.page_tokens == 1 and case.pages == 70_000 for case in every)
    assert any(case.pool_bytes > 1 << 32 for case in every)
    for case in every:
        pool = case.entries * max(case.pages * case.page_bytes, case.pool_bytes)
        assert pool + 3 * case.payload_bytes < 80e9
        assert case.listing is not Listing.RUNS or case.pages % 8 == 0


HEADS: Final = (HeadRange(0, 3), HeadRange(3, 1))
TINY: Final = [
    Case("plain", Operation.PACK, 3, 2, 4, 16, 8, 0.9),
    Case("latent", Operation.PACK, 2, 1, 1, 656, 3, 0.9),
    Case("split", Operation.PACK, 2, 2, 4, 16, 6, 0.9, HEADS),
    Case("slice", Operation.PACK, 3, 2, 4, 16, 6, 0.9, (HeadRange(1, 2),)),
    *(Case(order.value, Operation.PACK, 3, 2, 4, 16, 16, 0.9, listing=order) for order in Listing),
    Case("64 bits", Operation.PACK, 2, 2, 4, 16, 8, 0.9, index_bits=64),
    *(Case(f"{base} off", Operation.PACK, 2, 2, 4, 16, 6, 0.9, base_bytes=base)
      for base in (2, 4, 8)),
    Case("larger pools", Operation.PACK, 2, 2, 4, 16, 8, 0.9, pool_bytes=5000),
    Case("plain", Operation.UNPACK, 3, 2, 4, 16, 8, 0.9),
    Case("64 bits", Operation.UNPACK, 3, 2, 4, 16, 8, 0.9, index_bits=64),
    Case("merge", Operation.UNPACK, 2, 2, 4, 16, 6, 0.9, HEADS),
    Case("plain", Operation.DIGEST_PACK, 3, 2, 4, 16, 8, 0.9),
    Case("plain", Operation.VERIFY_UNPACK, 3, 2, 4, 16, 8, 0.9),
    Case("plain", Operation.DIGEST_CHUNK, 3, 2, 4, 16, 8, 0.9),
    *(Case("scaled", Operation.CAST, 2, 2, 4, 32, 8, 0.9, None, scale) for scale in Scale),
    Case("scaled", Operation.UNCAST, 2, 2, 4, 32, 8, 0.9, None, Scale.PAGE),
]  # fmt: skip
FLAT: Final = "a flat copy in Triton, of packed pages"
TORCH: Final = {
    "pack: plain": [FLAT, "index_select per entry", "gather per entry", "index and join",
                    "by element", "page by page"],
    "pack: slice": [FLAT, "index_select per entry", "gather per entry"],
    "pack: split": [FLAT, "index_select per entry", "gather per entry", "peer by peer"],
    "unpack: plain": ["index_copy per entry"],
    "unpack: merge": ["index_copy per entry"],
    "pack and digest: plain": ["index_select, then sums"],
    "digest a chunk: plain": ["sum of words, which only reads"],
}  # fmt: skip
MOVES: Final = ["a cudaMemcpyAsync per run", "one cudaMemcpyBatchAsync",
                "CUDA C, 8 B, a warp per token", "CUDA C, 16 B, a block per piece"]  # fmt: skip
ADLER: Final = "CUDA C Adler-32, a thread per page"
CUDA: Final = {
    "pack: plain": MOVES, "pack: slice": MOVES, "pack: split": MOVES,
    "unpack: plain": MOVES, "unpack: merge": MOVES,
    "pack and digest: plain": [f"index_select, then {ADLER}"],
    "unpack and verify: plain": [f"index_copy, then {ADLER}"],
    "digest a chunk: plain": [ADLER],
}  # fmt: skip


class TestCasesOfAGpu:
    """The parts of a GPU's run that need none, on tiny cases: what it proves before it times."""

    @pytest.fixture
    def subjects(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A function that makes a case with two repetitions, where this machine can run it."""
        torch = pytest.importorskip("torch")
        pytest.importorskip("triton")
        from lab.bench import subject as bench_subject  # noqa: PLC0415 - needs them

        def made(case: Case, device: str | None = None) -> Any:
            monkeypatch.setattr(bench_subject, "COLD_BYTES", 2 * case.traffic_bytes)
            found = "cuda" if torch.cuda.is_available() else "cpu"
            return bench_subject.make(case, device or found)

        return made

    @pytest.mark.parametrize("case", TINY, ids=lambda case: case.title)
    def test_a_case_and_its_baselines_are_right(self, subjects: Any, case: Case) -> None:
        from lab.bench import baselines  # noqa: PLC0415
        from lab.bench import subject as bench_subject  # noqa: PLC0415

        subject = subjects(case)
        assert len(subject.calls) == len(subject.copies) == 2
        bench_subject.check(subject)
        for call in (*subject.calls, *subject.copies):
            call()
        assert subject.report.read().clean
        named = [name for name in baselines.of(case) if not name.startswith("SGLang")]
        names = [name for name in named if "cuda" not in name.lower()]
        assert names == TORCH.get(case.title, names)
        assert [name for name in named if name not in names] == CUDA.get(
            case.title, [name for name in named if name not in names]
        )
        for name in names:
            baseline = baselines.of(case)[name]
            baselines.prove(subject, name, baseline.make(subject), baseline.right)

    @pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
    def own(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch,
        tmp_path: pathlib.Path,
    ) -> Iterator[tuple[str, Callable[[], int]]]:  # fmt: skip
        """Where CUDA's own ways run, and what counts up as they do: without a GPU, the CPU."""
        torch = pytest.importorskip("torch")
        from lab.bench import patterns  # noqa: PLC0415 - needs it

        if request.param == "cuda":
            if not torch.cuda.is_available():
                pytest.skip(NO_GPU)
            with torch.cuda.stream(torch.cuda.Stream()):
                yield "cuda", count().__next__
            return
        if cuda_host.COMPILER is None:
            pytest.skip("no C compiler to run CUDA C on the CPU with")
        built = {}
        for bits in (32, 64):
            folder = tmp_path / str(bits)
            folder.mkdir()
            built[bits] = cuda_host.library(patterns.SOURCE, index_option(bits), folder)
        monkeypatch.setattr(patterns, "current", lambda: cuda_host.STREAM)
        monkeypatch.setattr(patterns, "runtime", lambda: Runtime(built[32]))
        monkeypatch.setattr(
            patterns, "kernels", lambda case: Kernels(built[case.index_bits], cuda_host.IMAGE)
        )
        yield "cpu", cuda_host.Done(list(built.values()))

    @pytest.mark.parametrize("case", TINY, ids=lambda case: case.title)
    def test_cuda_s_own_ways_are_right(
        self, subjects: Any, own: tuple[str, Callable[[], int]], case: Case
    ) -> None:
        from lab.bench import baselines  # noqa: PLC0415
        from lab.bench import subject as bench_subject  # noqa: PLC0415

        device, done = own
        subject = subjects(case, device)
        bench_subject.check(subject)
        for name, baseline in baselines.of(case).items():
            if "cuda" not in name.lower():
                continue
            if "warp" in name and case.base_bytes in {2, 4}:
                with pytest.raises(LeftOutError, match="8 bytes at a time"):
                    baseline.make(subject)
                continue
            try:
                calls = baseline.make(subject)
            except LeftOutError as error:
                assert device == "cuda"
                pytest.skip(str(error))
            before = done()
            baselines.prove(subject, name, calls, baseline.right)
            assert done() > before
            with pytest.raises(bench_subject.WrongResultError):
                baselines.prove(subject, name, [lambda: None] * len(calls), baseline.right)

    def test_the_static_scale_reaches_the_largest_values_of_a_large_case(
        self, subjects: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A run on a GPU has 7e8 normal values, and more rounds may have 1e10: 5.4, and 6.5."""
        from lab.bench import subject as bench_subject  # noqa: PLC0415

        pools = bench_subject._pools

        def with_large_ones(*of: Any) -> Any:
            made = pools(*of)
            made[..., 0], made[..., 1] = 6.5, -6.5
            return made

        monkeypatch.setattr(bench_subject, "_pools", with_large_ones)
        bench_subject.check(subjects(next(case for case in TINY if case.scale is Scale.STATIC)))

    def test_a_wrong_result_is_not_timed(
        self, subjects: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from lab.bench import baselines  # noqa: PLC0415
        from lab.bench import subject as bench_subject  # noqa: PLC0415

        subject = subjects(TINY[0])
        with pytest.raises(bench_subject.WrongResultError, match="nothing differs"):
            baselines.prove(subject, "nothing", [lambda: None])
        digests = subjects(next(case for case in TINY if case.operation is Operation.DIGEST_CHUNK))
        with pytest.raises(bench_subject.WrongResultError, match="the sums of nothing"):
            baselines.prove(digests, "nothing", [lambda: None], lambda *_: False)
        for left_out, case, message in (
            ("pack_slices", TINY[0], "pack differs"),
            ("unpack_slices", TINY[0], "unpack differs"),
            ("pack_cast", TINY[-1], "fp8 codes differ"),
            ("unpack_cast", TINY[-1], "round trip"),
        ):
            with monkeypatch.context() as patched:
                patched.setattr(bench_subject, left_out, lambda *_, **__: None)
                if left_out == "unpack_cast":
                    patched.setattr(bench_subject, left_out, _zero)
                subject = subjects(case)
                with pytest.raises(bench_subject.WrongResultError, match=message):
                    bench_subject.check(subject)

    def test_the_launches_of_a_chunk_are_counted(self) -> None:
        pytest.importorskip("triton")
        from lab.bench.load import counted  # noqa: PLC0415

        pinned = "copies to the device from pinned memory"
        nothing = dict.fromkeys(counted([]), 0)
        assert set(nothing.values()) == {0}
        assert nothing[pinned] == 0
        told = counted([
            ("copy_kernel", True), ("Memcpy HtoD (Pinned -> Device)", True),
            ("cudaMemcpyAsync", False), ("cuLaunchKernelEx", False), ("aten::copy_", False),
            ("cudaDeviceSynchronize", False), ("Context Sync", True),
        ])  # fmt: skip
        assert told == nothing | {"kernels": 1, pinned: 1}
        told = counted([
            ("Memcpy HtoD (Pageable -> Device)", True), ("Memcpy DtoH (Device -> Pinned)", True),
            ("Memset (Device)", True), ("cudaStreamSynchronize", False), ("cudaMalloc", False),
            ("cudaHostAlloc", False), ("cudaEventSynchronize", False),
        ])  # fmt: skip
        assert told == nothing | {
            "copies to the device from other memory": 1, "other copies": 1, "fills": 1,
            "waits": 2, "allocations": 2,
        }  # fmt: skip


def _zero(layout: Any, *_: object, **__: object) -> None:
    for pool in layout.pools:
        pool.zero_()


@pytest.mark.gpu
def test_the_gpu_run_is_whole(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip(NO_GPU)
    json_file = tmp_path / "r.json"
    assert bench.run(_parsed("--device", "cuda", "--quick", "--json", str(json_file))) == 0
    assert json.loads(json_file.read_text())["rows"]
