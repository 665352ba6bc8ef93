"""What `.ci/run` does around the stages, and the skips that it lets pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import NAMED, NO_ETCD, NO_GPU, OPTION

ROOT = Path(__file__).resolve().parents[2]

SKIPS = f'''
import pytest

def test_on_a_gpu():
    pytest.skip({NO_GPU!r})

def test_with_a_tool():
    pytest.skip("sextant is not installed")

def test_of_ours():
    pass
'''
MODULE = 'import pytest; pytest.importorskip("astrolabe")\n'


def skipping(folder: Path, *options: str, source: str) -> subprocess.CompletedProcess[str]:
    """Run pytest, with our rule about skips, on one module."""
    (folder / "conftest.py").write_text(
        "from tests.skips import pytest_addoption, register as pytest_configure\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_skip_for_another_reason_fails_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = skipping(tmp_path, OPTION, *workers, source=SKIPS)
    assert done.returncode == 1
    assert "test_some.py::test_with_a_tool: sextant is not installed" in done.stdout
    assert "test_on_a_gpu:" not in done.stdout
    assert "1 skipped for a reason that tests/skips.py does not name" in done.stdout


def test_a_module_that_is_not_collected_fails_the_run(tmp_path: Path) -> None:
    done = skipping(tmp_path, OPTION, source=MODULE + SKIPS)
    assert done.returncode != 0
    assert "could not import 'astrolabe'" in done.stdout


def test_named_skips_pass(tmp_path: Path) -> None:
    done = skipping(tmp_path, OPTION, source=SKIPS.replace("sextant is not installed", NO_GPU))
    assert (done.returncode, "does not name" in done.stdout) == (0, False)


def test_without_the_option_any_skip_passes(tmp_path: Path) -> None:
    assert skipping(tmp_path, source=SKIPS).returncode == 0


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with `.ci/run`, and `bin` with the programs that it may call."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "dirname", "env"):
        found = shutil.which(name)
        assert found
        (commands / name).symlink_to(found)
    return tmp_path


def program(clone: Path, name: str, body: str = "") -> None:
    path = clone / "bin" / name
    path.write_text(f"#!/bin/bash\necho {name} $* >> {clone}/calls\n{body}\n")
    path.chmod(0o755)


def ci(clone: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([clone / ".ci" / "run"], env={"PATH": str(clone / "bin")},
                          capture_output=True, text=True, check=False)  # fmt: skip


TOOLS = (
    "cc", "gcc", "java", "node", "chromium", "ip", "tc", "nft", "etcd", "python3", "sudo",
)  # fmt: skip


def test_the_workflow_installs_the_packages_that_ci_run_does() -> None:
    (tools,) = re.findall(r'^TOOLS="(.*)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    needed = {tool.partition(":")[2] for tool in tools.split()} | {"libibverbs1", "python3-venv"}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    job = workflow.partition("\n  full:\n")[2].partition("\n  weekly:\n")[0]
    (command,) = re.findall(r"- run: >-\n(.*?)\n      - ", job, re.DOTALL)
    assert needed - set(command.split()) == set()


def test_a_stage_that_fails_fails_the_run_after_the_others(clone: Path) -> None:
    for tool in (*TOOLS, "apt-get"):
        program(clone, tool)
    program(clone, "make", '[ "$1" != test ]')
    done = ci(clone)
    assert done.returncode == 1
    told = [line.split() for line in done.stdout.splitlines() if " s  " in line]
    assert [(line[2], line[3]) for line in told] == [
        ("passed", "tools"), ("passed", "install"), ("FAILED", "test"), ("passed", "run"),
        ("passed", "sglang"), ("passed", "servers"), ("passed", "vllm"),
        ("passed", "servers-vllm"),
    ]  # fmt: skip
    assert all(line[0].isdigit() for line in told)
    calls = [line for line in (clone / "calls").read_text().splitlines() if "make" in line]
    assert calls == [
        "make --jobs 3 installed-all", f"make test TEST_OPTIONS={OPTION}", "make run",
        "make test-sglang-quick", "make test-servers-quick", "make test-vllm-quick",
        "make test-servers-vllm-quick",
    ]  # fmt: skip


def test_everything_passes(clone: Path) -> None:
    for tool in (*TOOLS, "make", "apt-get"):
        program(clone, tool)
    assert ci(clone).returncode == 0


def test_a_missing_tool_is_installed_by_the_name_of_its_package(clone: Path) -> None:
    for tool in TOOLS:
        if tool not in {"nft", "etcd"}:
            program(clone, tool, 'if [ "$1" = -n ]; then shift; "$@"; fi')
    program(clone, "make")
    program(clone, "apt-get")
    assert ci(clone).returncode == 0
    calls = [line for line in (clone / "calls").read_text().splitlines() if "apt-get" in line]
    assert "apt-get install -y -qq --no-install-recommends nftables etcd-server" in calls


def test_a_machine_without_packages_is_told_what_to_install(clone: Path) -> None:
    for tool in (*TOOLS, "make"):
        if tool != "nft":
            program(clone, tool)
    done = ci(clone)
    assert done.returncode == 1
    assert ("no apt-get here. Install by hand what these Debian packages have: nftables"
            in done.stdout)


def test_what_ci_installs_is_no_excuse() -> None:
    """A test that is skipped for want of it fails the run."""
    tools = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "etcd:etcd-server" in tools
    assert NO_ETCD not in NAMED
    assert [reason for reason in NAMED if ".ci/run installs" in reason] == []
