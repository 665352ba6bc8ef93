"""The benchmark's own parts: what it prints and writes, on tiny cases. No test looks at times."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any, Final

import pytest

from pdproto.cli import bench, bench_host
from pdproto.cli.bench_cases import CASES, SMALL, Case, Operation
from pdproto.cli.bench_report import Results, Row, markdown
from pdproto.kernels.plan import HeadRange, Scale


def _parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    return parser.parse_args(["kernels", *arguments])


def test_the_cpu_run_prints_and_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_host, "CASES", (("tiny", 2, 8, 4, 64, 3, 0.7),))
    monkeypatch.setattr(bench_host, "ROUNDS", 1)
    monkeypatch.setattr(bench_host, "SMALL", ((2, 4, 64, 2),))
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
    text = markdown(Results({"GPU": "one"}, [row], {"host time": "3 us"}))
    assert "* GPU: one" in text
    assert (
        "| pack | a case | 2.0 MB | 4.0 us | 500.0 GB/s | **0.912** | 0.900-0.930 | 0.95"
        " | by element 0.50 |" in text
    )
    assert "| host time | 3 us |" in text


def test_cases_count_their_bytes() -> None:
    by_name = {(case.operation.value, case.name): case for case in CASES}
    llama = by_name["pack", "32 KiB pages"]
    assert llama.payload_bytes == 160 * 8192 * 8 * 256
    assert by_name["pack", "one head of eight"].payload_bytes * 8 == llama.payload_bytes
    assert by_name["pack as fp8", "static scale"].traffic_bytes == 1.5 * llama.payload_bytes
    assert by_name["digest a chunk", "32 KiB pages"].traffic_bytes == llama.payload_bytes
    assert [case.payload_bytes for case in SMALL] == [655_360, 5_242_880]


TINY: Final = [
    Case("plain", Operation.PACK, 3, 2, 4, 16, 8, 0.9),
    Case("latent", Operation.PACK, 2, 1, 1, 656, 3, 0.9),
    Case("split", Operation.PACK, 2, 2, 4, 16, 6, 0.9, (HeadRange(0, 3), HeadRange(3, 1))),
    Case("plain", Operation.UNPACK, 3, 2, 4, 16, 8, 0.9),
    Case("merge", Operation.UNPACK, 2, 2, 4, 16, 6, 0.9, (HeadRange(0, 3), HeadRange(3, 1))),
    Case("plain", Operation.DIGEST_PACK, 3, 2, 4, 16, 8, 0.9),
    Case("plain", Operation.VERIFY_UNPACK, 3, 2, 4, 16, 8, 0.9),
    Case("plain", Operation.DIGEST_CHUNK, 3, 2, 4, 16, 8, 0.9),
    *(Case("scaled", Operation.CAST, 2, 2, 4, 32, 8, 0.9, None, scale) for scale in Scale),
    Case("scaled", Operation.UNCAST, 2, 2, 4, 32, 8, 0.9, None, Scale.PAGE),
]
OTHERS: Final = {
    (Operation.PACK, "plain"): ["index_select per entry", "index and join", "by element",
                                "page by page"],
    (Operation.PACK, "split"): ["peer by peer"],
    (Operation.UNPACK, "plain"): ["index_copy per entry"],
    (Operation.DIGEST_PACK, "plain"): ["index_select, then sums"],
}  # fmt: skip


class TestCasesOfAGpu:
    """The parts of a GPU's run that need none, on tiny cases: what it proves before it times."""

    @pytest.fixture
    def subjects(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A function that makes a case with two repetitions, where this machine can run it."""
        torch = pytest.importorskip("torch")
        pytest.importorskip("triton")
        from pdproto.cli import bench_subject  # noqa: PLC0415 - needs them

        def made(case: Case) -> Any:
            monkeypatch.setattr(bench_subject, "COLD_BYTES", 2 * case.traffic_bytes)
            return bench_subject.make(case, "cuda" if torch.cuda.is_available() else "cpu")

        return made

    @pytest.mark.parametrize("case", TINY, ids=lambda case: f"{case.operation.value}: {case.name}")
    def test_a_case_and_what_else_does_it_are_right(self, subjects: Any, case: Case) -> None:
        from pdproto.cli import bench_baselines, bench_subject  # noqa: PLC0415

        subject = subjects(case)
        assert len(subject.calls) == len(subject.copies) == 2
        bench_subject.check(subject)
        for call in (*subject.calls, *subject.copies):
            call()
        assert subject.report.read().clean
        others = bench_baselines.of(subject)
        assert list(others) == OTHERS.get((case.operation, case.name), list(others))
        for name, calls in others.items():
            bench_baselines.prove(subject, name, calls)

    def test_what_is_wrong_is_not_timed(
        self, subjects: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from pdproto.cli import bench_baselines, bench_subject  # noqa: PLC0415

        subject = subjects(TINY[0])
        with pytest.raises(bench_subject.WrongResultError, match="nothing differs"):
            bench_baselines.prove(subject, "nothing", [lambda: None])
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

    def test_what_a_chunk_enqueues_is_counted(self) -> None:
        pytest.importorskip("triton")
        from pdproto.cli.bench_device import counted  # noqa: PLC0415

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
        pytest.skip("no CUDA device here")
    json_file = tmp_path / "r.json"
    assert bench.run(_parsed("--device", "cuda", "--quick", "--json", str(json_file))) == 0
    assert json.loads(json_file.read_text())["rows"]
