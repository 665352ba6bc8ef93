"""An engine of an installed package: found by its entry point, used by name, refused with a reason.

Each test installs a package beside the present ones, as pip does: a module, and the metadata that
names the entry point.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "process_memory_engine.py"


def install(folder: Path, entry: str, module: str = "") -> None:
    """A package `byte-mover` in this folder, with this entry point."""
    metadata = folder / "byte_mover-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: byte-mover\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[pdproto.engines]\n{entry}\n")
    (folder / "byte_mover.py").write_text(module)


def pdproto(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pdproto where the packages of this folder are installed too."""
    paths = os.pathsep.join([str(folder), str(ROOT), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", "from pdproto.cli.main import entry_point; entry_point()",
         *arguments],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=120,
        check=False,
    )


def test_processes_hand_over_with_the_engine_of_a_package(tmp_path: Path) -> None:
    """Seen red without the lookup of entry points: "invalid choice: 'process-memory'"."""
    install(tmp_path, "process-memory = byte_mover:ENGINE", EXAMPLE.read_text())
    ran = pdproto(tmp_path, "handoff", "--engine", "process-memory", "--requests", "20",
                  "--pp", "2", "--abort-rate", "0.2")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_setting_names_the_engine_of_a_package(tmp_path: Path) -> None:
    install(tmp_path, "process-memory = byte_mover:ENGINE", EXAMPLE.read_text())
    known = pdproto(tmp_path, "node", "settings", "--set", "engine=process-memory")
    assert known.returncode == 0, known.stderr
    assert "process-memory" in known.stdout
    other = pdproto(tmp_path, "node", "settings", "--set", "engine=process-memories")
    assert other.returncode == 2
    assert "want one of cuda-ipc, mooncake, nixl, nixl-gpu, shm, tcp, process-memory" in (
        other.stderr)


@pytest.mark.parametrize(("entry", "module", "told"), [
    pytest.param("lost = byte_mover:ENGINE", "",
                 "engine 'lost' of byte-mover (byte_mover:ENGINE) does not load: ",
                 marks=pytest.mark.nightly),
    ("wrong = byte_mover:ENGINE", "ENGINE = 7",
     "engine 'wrong' of byte-mover (byte_mover:ENGINE) is no pdproto.engine.engines.EngineKind: 7"),
    (f"{'long' * 9} = byte_mover:ENGINE", "", "its name has over 32 characters"),
    pytest.param("failing = byte_mover:ENGINE", "raise OSError('no such device')",
                 "engine 'failing' of byte-mover (byte_mover:ENGINE) does not load: no such device",
                 marks=pytest.mark.nightly),
], ids=["missing", "no engine", "long", "failing"])  # fmt: skip
def test_what_is_no_engine_is_refused_with_its_package(
    tmp_path: Path, entry: str, module: str, told: str
) -> None:
    install(tmp_path, entry, module)
    name, _, _ = entry.partition(" ")
    ran = pdproto(tmp_path, "handoff", "--engine", name, "--requests", "1")
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_package_replaces_no_built_in_engine(tmp_path: Path) -> None:
    install(tmp_path, "tcp = byte_mover:ENGINE", "raise OSError('it was loaded')")
    ran = pdproto(tmp_path, "handoff", "--engine", "tcp", "--requests", "2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
