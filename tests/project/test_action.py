"""The action for GitHub: its steps run in order, on a system that holds and on one that does not.
"""

import json
import os
import sys
import venv
from pathlib import Path

import pytest

from tests.project.action_runner import Job, act
from tests.project.own_repository import repository

BOTH = "lease.py:SYSTEM --size Client=2\n\nbroken.py:SYSTEM\n"
UPLOAD, SARIF = "actions/upload-artifact", "github/codeql-action/upload-sarif"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repository(tmp_path / "repository")


def acted(folder: Path, systems: str, **inputs: str) -> Job:
    """Run the action where pdproto is installed, on systems without a mistake."""
    job = run(folder, systems, **inputs)
    assert "rror:" not in job.shell["check"].stderr, job.shell["check"].stderr
    return job


def run(folder: Path, systems: str, **inputs: str) -> Job:
    """The same, also on systems that are refused."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder.with_name("cache")),
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return act({"systems": systems, **inputs}, folder=folder, environment=environment,
               without={"install"})


def reports(folder: Path, name: str = "pdproto-reports") -> set[str]:
    return {path.name for path in (folder / name).iterdir()}


def refuted(path: Path) -> set[str]:
    """The properties that a SARIF file shows as violated."""
    (run,) = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return {one["ruleId"] for one in run["results"] if one.get("level") == "error"}


def test_it_checks_every_system_of_its_shard(folder: Path) -> None:
    for shard, failed, one in (("1/2", False, "1"), ("2/2", True, "2")):
        name = f"reports {one}"
        assert acted(folder, BOTH, shard=shard, reports=name).failed is failed
        assert reports(folder, name) == {f"{one}.sarif", f"{one}.html"}


def test_it_goes_on_after_a_violation(folder: Path) -> None:
    job = acted(folder, "broken.py:SYSTEM\nlease.py:SYSTEM\n")
    assert job.failed
    assert "::error file=broken.py,line=" in job.shell["check"].stdout
    assert reports(folder) == {"1.sarif", "1.html", "2.sarif", "2.html"}
    assert "one_holder" in refuted(folder / "pdproto-reports" / "1.sarif")
    assert refuted(folder / "pdproto-reports" / "2.sarif") == set()


@pytest.mark.parametrize(("systems", "status"), [
    ("lease.py:SYSTEM", 0),
    ("lease.py:SYSTEM --max-states 1\nlease.py:SYSTEM", 3),
    pytest.param("nowhere.py:SYSTEM\nlease.py:SYSTEM --max-states 1", 3, marks=pytest.mark.nightly),
    pytest.param("nowhere.py:SYSTEM\nlease.py:SYSTEM", 2, marks=pytest.mark.nightly),
    ("lease.py:SYSTEM --max-states 1\nbroken.py:SYSTEM\nnowhere.py:SYSTEM", 1),
])
def test_it_ends_with_the_status_of_the_check(folder: Path, systems: str, status: int) -> None:
    """A violation comes before all others."""
    assert run(folder, systems).shell["check"].returncode == status


@pytest.mark.parametrize("systems", ["lease.py:SYSTEM", "broken.py:SYSTEM"])
def test_reports_are_kept_whether_or_not_a_system_holds(folder: Path, systems: str) -> None:
    job = acted(folder, systems)
    assert job.used[UPLOAD]["path"] == "pdproto-reports"
    assert job.used[UPLOAD]["name"] == "pdproto-0"
    assert SARIF not in job.used
    assert acted(folder, systems, upload="true").used[SARIF] == {"sarif_file": "pdproto-reports"}


def test_a_mistake_in_a_spec_fails_the_job(folder: Path) -> None:
    """The other systems are checked, and the line of the mistake is named."""
    job = acted(folder, "mistaken.py:SYSTEM\nlease.py:SYSTEM\n")
    assert job.failed
    assert "mistaken.py:" in job.shell["check"].stderr
    assert {"2.sarif", "2.html"} <= reports(folder)


@pytest.mark.nightly
def test_it_installs_what_it_needs(folder: Path) -> None:
    """All steps, with a Python that has nothing installed, as setup-python gives it."""
    venv.create(folder.with_name("python"), with_pip=True, symlinks=True)
    environment = {"PATH": f"{folder.with_name('python') / 'bin'}:{os.environ['PATH']}",
                   "HOME": str(folder.with_name("home"))}
    for systems, failed in (("lease.py:SYSTEM", False), ("broken.py:SYSTEM", True)):
        job = act({"systems": systems}, folder=folder, environment=environment)
        assert job.used["actions/setup-python"] == {"python-version": "3.11"}
        assert job.shell["install"].returncode == 0, job.shell["install"].stderr
        assert job.shell["check"].stderr == ""
        assert job.failed is failed
        assert reports(folder) == {"1.sarif", "1.html"}
