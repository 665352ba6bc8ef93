"""The runs on a GPU, as far as they go without one: `make test-gpu` and `make bench-gpu`."""

import subprocess
import sys
from pathlib import Path

import pytest

from pdproto.cli.main import parser_for
from tests.project import gpu
from tests.project.gpu import RESULTS, STEPS, TITLE, Step, main, no_gpu, results_with, run


def python(code: str) -> Step:
    return Step((sys.executable, "-c", code))


@pytest.mark.parametrize("task", STEPS)
def test_a_machine_without_a_gpu_is_told_in_one_line(
    task: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "no_gpu", lambda: "torch 2.13.0+cpu finds no NVIDIA GPU here")
    monkeypatch.setattr(subprocess, "run", None)
    assert main(task) == 2
    told = capfd.readouterr()
    assert told.err == f"make {task}-gpu: torch 2.13.0+cpu finds no NVIDIA GPU here\n"
    assert told.out == ""


def test_torch_is_asked_for_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    assert (no_gpu() is None) == torch.cuda.is_available()


def test_steps_end_at_the_first_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([python("print('one')")], minutes=1)
    assert not run([python("import sys; sys.exit(3)"), python("print('two')")], minutes=1)
    told = capfd.readouterr()
    assert "one" in told.out.splitlines()
    assert "two" not in told.out.splitlines()
    assert told.err.startswith("exit status 3: ")


def test_steps_end_when_the_time_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    assert not run([python("import time; time.sleep(60)")], minutes=0.002)
    assert capfd.readouterr().err.startswith("not done after 0.002 minutes: ")


def test_a_program_that_is_not_installed_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([Step(("no-such-program",), needs="no-such-program")], minutes=1)
    assert "left out, because no-such-program is not installed" in capfd.readouterr().out


def test_the_commands_of_pdproto_exist() -> None:
    """Their options are those of the command line; files and tests are there."""
    for step in (step for steps in STEPS.values() for step in steps):
        words = [*step.command]
        if "pdproto.cli.main" in words:
            options = words[words.index("pdproto.cli.main") + 1:]
            parser_for(options).parse_args(options)
        for word in words:
            assert not word.startswith("tests/") or Path(RESULTS.parents[1] / word).exists()


def test_measured_results_replace_those_before_and_the_note_that_there_are_none() -> None:
    text = RESULTS.read_text()
    assert text.startswith(f"{TITLE}\n\nEvery number")
    without = text.replace(TITLE, f"{TITLE}, without a GPU: none was at hand", 1)
    changed = results_with(without, "* device: an H200\n\n| case | of a copy |\n")
    assert changed.startswith(f"{TITLE}\n\nEvery number")
    assert "## GPU\n\n* device: an H200\n\n| case | of a copy |\n\n## Host time" in changed
    assert changed.split("## Host time")[1:] == text.split("## Host time")[1:]
    with pytest.raises(ValueError, match=r"RESULTS\.md has no section GPU"):
        results_with("# Other\n", "")


def test_the_tests_for_a_gpu_are_found_without_one() -> None:
    """A module that cannot be imported would be noticed on a GPU only."""
    pytest.importorskip("torch")
    found = subprocess.run([*STEPS["test"][0].command, "--collect-only", "-q"], cwd=gpu.ROOT,
                           check=False, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout[-2000:]
    for module in ("tests/kernels/test_chunk.py", "tests/kernels/test_device.py",
                   "tests/pages/test_cuda.py"):
        assert f"{module}:" in found.stdout
