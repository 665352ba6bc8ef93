"""No room, on a disk or in the address space: one line says so, and no status says "violated"."""

import os
import resource
import subprocess
import sys
from errno import ENOSPC
from io import FileIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, Final

import pytest

from lab.bench.report import Results, publish
from pdproto.cli import main as main_module
from pdproto.cli.main import ADDRESSES_MIN, MIB, main
from pdproto.cli.options import UsageError
from pdproto.transport.keys import write_members
from tests.check.trace.alterations import GOLDEN

Output = pytest.CaptureFixture[str]
PDPROTO: Final = (sys.executable, "-m", "pdproto")
LAB: Final = (sys.executable, "-m", "lab")
FULL: Final = "/dev/full"
TRACES: Final = " ".join(map(str, sorted(GOLDEN.glob("*.jsonl"))))


@pytest.mark.parametrize("command", ["check nowhere", pytest.param(
    "check lock-server --max-states 3 --quiet", marks=pytest.mark.nightly)])
def test_a_full_disk_is_no_violation(command: str) -> None:
    """Seen red: the reason could not be written either, and Python ended with 1."""
    with open(FULL, "w", encoding="utf-8") as full:
        done = subprocess.run([*PDPROTO, *command.split()], stdout=full, stderr=full, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("command", [
    f"trace {TRACES}", "run lock-server --runs 1", "lint lock-server", "sim lock-server",
    "explore lock-server --text", "export lock-server --markdown", "node settings",
    *(pytest.param(command, marks=pytest.mark.nightly) for command in (
        "check lock-server --quiet", "prove two-phase-commit --quiet", "fuzz lock-server",
        "mutate lock-server --sample 1 --quiet --workers 1", "handoff --requests 2 --quiet",
        "handoff --requests 2 --quiet --json -", "handoff --bug early-decision --quiet"))])
def test_an_output_without_room_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Also where each character is written at once (PYTHONUNBUFFERED). Seen red: eight verbs told
    an errno, and not what could not be written.
    """
    with monkeypatch.context() as patch, FileIO(FULL, "w") as full:
        patch.setattr(sys, "stdin", StringIO())
        patch.setattr(sys, "stdout", TextIOWrapper(full, encoding="utf-8", write_through=True))
        assert main(command.split()) == 2
    assert capsys.readouterr().err == (
        "pdproto: cannot write to standard output: No space left on device\n")


@pytest.mark.nightly
@pytest.mark.parametrize("command", [
    "race early-decision", "bugs early-decision --quiet", "cluster --seeds 1 --quiet",
    "compare two-phase-commit --with portable --quiet", "soak --handoffs 2 --quiet"])
def test_an_output_of_the_laboratory_without_room_is_named(command: str) -> None:
    with open(FULL, "w", encoding="utf-8") as full:
        done = subprocess.run([*LAB, *command.split()], text=True, stdout=full,
                              stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2, "pdproto: cannot write to standard output: No space left on device")


@pytest.mark.parametrize("command", [
    "cluster --decode 1 --seed 0 --requests 2 --trace FOLDER",
    "cluster --seed 0 --requests 2 --json FILE",
    *(pytest.param(command, marks=pytest.mark.nightly) for command in (
        "race early-decision --json FILE", "bugs early-decision --quiet --json FILE",
        "compare two-phase-commit --with portable --record FILE",
        "soak --handoffs 2 --json FILE", "soak --handoffs 2 --resume FILE"))])
def test_a_file_of_the_laboratory_without_room_is_named(command: str, tmp_path: Path) -> None:
    """Seen red: `soak --resume` and `cluster --trace` told an errno alone, and `cluster --trace`
    said that it holds, with 0, if the disk had room again at its end.
    """
    full = tmp_path / "seed-0" / "d0-0.jsonl"
    full.parent.mkdir()
    full.with_name(full.name + (".partial" if "--resume" in command else "")).symlink_to(FULL)
    words = command.replace("FOLDER", str(tmp_path)).replace("FILE", str(full)).split()
    done = subprocess.run([*LAB, *words], text=True, capture_output=True, check=False)
    assert done.returncode == 2, done.stderr
    told = done.stderr.splitlines()[-1]
    assert (str(full) in told, told.endswith("No space left on device")) == (True, True), told


@pytest.mark.parametrize("kind", ["json_file", "markdown_file"])
def test_figures_without_room_are_named(kind: str, tmp_path: Path) -> None:
    """Seen red: `bench` told an errno alone."""
    full = tmp_path / "figures"
    full.symlink_to(FULL)
    with pytest.raises(UsageError, match=f"cannot write '{full}': No space left on device"):
        publish(Results(), **{"json_file": None, "markdown_file": None, "plot_file": None,
                              kind: full})


@pytest.mark.nightly
def test_a_trace_without_room_is_no_trace(tmp_path: Path) -> None:
    """The folder was asked for. Seen red: the drill ended with 0, and lines of a trace. Those of an
    earlier drill do not stay beside the new ones.
    """
    earlier, own = tmp_path / "decode-7.jsonl", tmp_path / "own.jsonl"
    earlier.write_text('{"n":1,"node":"decode-7","machine":"sink","end":1}\n')
    own.write_text('{"mine": true}\n')
    (tmp_path / "decode-0.jsonl").symlink_to(FULL)
    done = subprocess.run([*PDPROTO, "handoff", "--requests", "2", "--quiet", "--trace", tmp_path],
                          text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, (
        f"pdproto: --trace {tmp_path}: the trace of decode-0 is not whole, as the lines above say"))
    assert (earlier.exists(), own.exists()) == (False, True)


def test_keys_are_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Seen red: an empty secret was left, and the keys of a member that has them were emptied."""
    write_members(str(tmp_path), ["a"])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_: FileIO, __: object) -> int:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr("builtins.open", opening(full))
    for arguments in ((str(tmp_path / "new"),), (str(tmp_path), "--member", "b")):
        assert main(["node", "keys", *arguments]) == 2
        assert "No space left on device" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def opening(write: Any) -> Any:
    """`open`, for files that are written with this function."""
    class Full(FileIO):
        pass

    Full.write = write  # type: ignore[method-assign]
    real = open
    return lambda path, mode="r", *rest, opener=None, **more: (
        Full(path, mode, opener=opener) if opener else real(path, mode, *rest, **more))


@pytest.mark.parametrize("verb", ["prove", *(
    pytest.param(verb, marks=pytest.mark.nightly) for verb in ("check", "lint", "run"))])
@pytest.mark.parametrize("mib", [130, ADDRESSES_MIN // MIB])
def test_a_small_address_space_has_no_verdict(verb: str, mib: int, tmp_path: Path) -> None:
    """Seen red: libz3 did not load, a bug of ours; and BLAS ended the process with 1."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    done = subprocess.run([*PDPROTO, verb, "two-phase-commit"], text=True, capture_output=True,
                          check=False, preexec_fn=limit,
                          env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    if mib * MIB < ADDRESSES_MIN:
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == (f"pdproto: its libraries do not load in {mib} MiB of address "
                               f"space: allow {ADDRESSES_MIN // MIB} (ulimit -v)\n")
    else:
        assert done.returncode == 0, done.stderr


def test_an_error_that_cannot_be_told_is_no_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Seen red: a module that tells errors did not load, and Python ended with 1."""
    def unable(_: Exception) -> bool:
        raise ImportError("failed to map segment from shared object")

    monkeypatch.setattr(main_module, "_is_unanswered", unable)
    assert main(["check", "nowhere"]) == 3
    assert capsys.readouterr().err == (
        "pdproto: no answer: ImportError while another error was told\n")
