"""`pdproto node doctor` on two hosts, which are two processes here."""

import subprocess
import sys

import pytest

from pdproto.cli.main import main


def test_both_hosts_print_the_same_findings(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pdproto", "node", "doctor", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as prefill:
        assert prefill.stderr is not None
        port = prefill.stderr.readline().split("HOST:")[1].split("`")[0]
        assert main(["node", "doctor", "--call", f"127.0.0.1:{port}"]) == 0
        said, _ = prefill.communicate(timeout=60)
    assert prefill.returncode == 0
    assert said == capsys.readouterr().out
    assert "fits   hand-over: two pages over tcp" in said


def test_a_pair_that_does_not_fit_exits_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pdproto", "node", "doctor", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as prefill:
        assert prefill.stderr is not None
        port = prefill.stderr.readline().split("HOST:")[1].split("`")[0]
        monkeypatch.setenv("PDPROTO_ENGINE", "shm")
        assert main(["node", "doctor", "--call", f"127.0.0.1:{port}"]) == 1
        prefill.communicate(timeout=60)
    assert prefill.returncode == 1
    assert "FAILS  engine: tcp at prefill, shm at decode: set PDPROTO_ENGINE" in (
        capsys.readouterr().out)


@pytest.mark.parametrize(("arguments", "status", "words"), [
    (["--call", "127.0.0.1"], 2, "want host:port"),
    (["--listen", "203.0.113.7:9500"], 2, "cannot listen on 203.0.113.7"),
    (["--listen", "127.0.0.1:0", "--within", "0.1"], 1, "nobody called"),
    (["--call", "127.0.0.1:1"], 1, "start `pdproto node doctor --listen` there first"),
    (["--call", "127.0.0.1:1", "--", "python", "serve.py"], 2, "want a command with vllm serve"),
    ([], 2, "--listen --call is required"),
])
def test_what_cannot_be_tried_is_one_line(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", "doctor", *arguments]) == status
    printed = capsys.readouterr()
    assert words in printed.out + printed.err
