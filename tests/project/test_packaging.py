"""What is installed is pdproto and nothing else, whole, with and without a compiler."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, on a machine whose compiler fails."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    for name in listed:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", folder, source],
        check=True, capture_output=True, env={**os.environ, "CC": "false"},
    )
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pdproto"}
    for folder, prefix in (("pdproto", ""), ("spec", "pdproto/"), ("kernels", "pdproto/")):
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT)
            if path.suffix in {".py", ".typed", ".css", ".js"} and "__pycache__" not in path.parts:
                link = len(inside.parts) > 1 and (ROOT / inside.parts[0] / inside.parts[1])
                if not (link and Path(link).is_symlink()):
                    assert prefix + str(inside) in names


def test_without_a_compiler_the_portable_engine_answers(wheel: Path, tmp_path: Path) -> None:
    """The same verdict and the same counts, and one line that says why it is slow."""
    with zipfile.ZipFile(wheel) as archive:
        assert not any(name.endswith(".so") for name in archive.namelist())
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pdproto.cli.main", "check", "two-phase-commit", "--json", "-"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert '"states": 288' in done.stdout
    assert "portable engine" in done.stderr
