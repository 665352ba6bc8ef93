"""What is installed is pdproto and nothing else, whole, with and without a compiler."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.project import clean_wheel
from tests.project.own_repository import copied


def built(folder: Path, **environment: str) -> Path:
    """A wheel built from a copy of the tree."""
    source = copied(folder / "source")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", folder, source],
        check=True, capture_output=True, env={**os.environ, **environment},
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel from a machine whose compiler fails."""
    return built(tmp_path_factory.mktemp("wheel"), CC="false")


@pytest.mark.nightly
def test_one_wheel_is_for_every_python_and_needs_no_compiler(tmp_path: Path) -> None:
    """Installed in an environment that has the packages of this one, and no other program."""
    wheel = built(tmp_path)
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".so")] == [
        "pdproto/check/native/_search.abi3.so", "pdproto/kernels/_copy.abi3.so"]
    audited = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.search(r'consistent with the\s+following platform tag: "manylinux_', audited), audited
    venv.create(tmp_path / "clean", symlinks=True)
    programs = tmp_path / "clean" / "bin"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet",
         "--no-deps", "--no-index", "--ignore-installed", wheel],  # PYTHONPATH may lead to ours
        check=True,
    )  # fmt: skip
    (packages,) = (tmp_path / "clean").glob("lib/*/site-packages")
    shared = sysconfig.get_path("purelib")  # a path alone: its own .pth files are not read
    (packages / "shared.pth").write_text(f"{shared}\n", encoding="utf-8")
    clean_wheel.try_out(programs, tmp_path)


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
