"""Without an installation of their own: `pipx run`, and the hooks of pre-commit.

Both make an environment and install pdproto there, with the packages that it needs from the index.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.project.own_repository import committed, copied, repository
from tests.project.test_packaging import built

GUIDE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.nightly


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repository(tmp_path / "repository")


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this Python in the folder, without what this machine's user has kept."""
    own = {name: str(folder.with_name("kept") / name) for name in (
        "HOME", "XDG_CACHE_HOME", "PIPX_HOME", "PRE_COMMIT_HOME")}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env={**kept, **own},
                          capture_output=True, text=True, check=False, timeout=900)


def test_pipx_runs_a_check(tmp_path: Path, folder: Path) -> None:
    wheel = str(built(tmp_path / "built"))
    expected = {"lease": (0, "HOLDS  4 states"), "broken": (1, "one_holder violated"),
                "mistaken": (2, "mistaken.py:14: ")}
    for name, (status, told) in expected.items():
        done = ran(folder, "pipx", "run", "--spec", wheel, "pdproto", "check", f"{name}.py:SYSTEM")
        assert done.returncode == status, done.stderr
        assert told in done.stdout + done.stderr


def hooks(clone: Path, rev: str) -> str:
    """The configuration that the guide shows, for this clone and the user's spec."""
    found = re.search(r"```yaml\n(- repo: .*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return "repos:\n" + (
        found[1].replace("https://example.org/your/clone/of/pdproto", str(clone))
        .replace("v0.1.0", rev).replace("path/to/page.py", "lease.py").replace("Worker", "Client"))


def hooked(folder: Path, spec: str) -> dict[str, tuple[str, str]]:
    """Commit another lease.py; returns the verdict of each hook and all that it printed."""
    (folder / "lease.py").write_text((folder / spec).read_text(encoding="utf-8"), encoding="utf-8")
    done = ran(folder, "pre_commit", "run", "--all-files", "--color", "never")
    parts = re.split(r"(?m)^(pdproto \w+)\.+(Passed|Failed)$", done.stdout)
    assert done.returncode == ("Failed" in parts), done.stdout + done.stderr
    return {name: (verdict, told) for name, verdict, told in
            zip(parts[1::3], parts[2::3], parts[3::3], strict=True)}


def test_pre_commit_runs_both_hooks(tmp_path: Path, folder: Path) -> None:
    clone = copied(tmp_path / "clone")
    rev = committed(clone)
    (folder / ".pre-commit-config.yaml").write_text(hooks(clone, rev), encoding="utf-8")
    committed(folder)
    good = hooked(folder, "lease.py")
    assert {name: verdict for name, (verdict, _) in good.items()} == {
        "pdproto lint": "Passed", "pdproto check": "Passed"}
    broken = hooked(folder, "broken.py")
    assert broken["pdproto check"][0] == "Failed"
    assert "one_holder violated" in broken["pdproto check"][1]
    mistaken = hooked(folder, "mistaken.py")
    for name in ("pdproto lint", "pdproto check"):
        assert mistaken[name][0] == "Failed"
        assert re.search(r"lease\.py:\d+: ", mistaken[name][1]), mistaken[name][1]
