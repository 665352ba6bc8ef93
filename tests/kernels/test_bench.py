"""The benchmark's own parts: what it prints and writes, on tiny cases. No test looks at times."""

from __future__ import annotations

import argparse
import json
import pathlib

import pytest

from pdproto.cli import bench, bench_host
from pdproto.cli.bench_cases import CASES, SMALL
from pdproto.cli.bench_report import Results, Row, markdown


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


@pytest.mark.gpu
def test_the_gpu_run_is_whole(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    json_file = tmp_path / "r.json"
    assert bench.run(_parsed("--device", "cuda", "--quick", "--json", str(json_file))) == 0
    assert json.loads(json_file.read_text())["rows"]
