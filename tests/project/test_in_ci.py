"""Specs in the CI of their users: annotations, the action's step, pytest, and editors."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pdproto.check.lint import Remark, Severity
from pdproto.check.report import github
from pdproto.cli.main import main
from pdproto.spec.language.place import Place
from tests.docs.documents import ROOT

LEASE = ROOT / "examples" / "lease.py"
GUIDE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder: a spec that holds, and the same without its guard."""
    text = LEASE.read_text(encoding="utf-8")
    (tmp_path / "lease.py").write_text(text, encoding="utf-8")
    broken = text.replace("when=free, ", "").replace('"lease"', '"broken"')
    (tmp_path / "broken.py").write_text(broken, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_violation_is_shown_beside_its_property(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "broken.py:SYSTEM", "--quiet", "--format", "github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("::") and "title=one_holder" in line]
    source = (folder / "broken.py").read_text(encoding="utf-8")
    place = source.partition("one_holder =")[0].count("\n") + 1
    assert line.startswith(f"::error file=broken.py,line={place},title=one_holder::violated")
    assert line.endswith("%0A1. grant(c0)%0A2. grant(c1)")


@pytest.mark.usefixtures("folder")
def test_a_system_that_holds_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "lease.py:SYSTEM", "--quiet", "--format", "github"]) == 0
    assert "::" not in capsys.readouterr().out


def test_a_remark_is_escaped_for_github() -> None:
    remark = Remark("a:b,c", Severity.NOTE, "100 %\nof it", Place("a,b.py", 3))
    assert [*github.of_lint([remark])] == [
        "::notice file=a%2Cb.py,line=3,title=a%3Ab%2Cc::100 %25%0Aof it"]


def action_step() -> str:
    """The text of the step that checks, as the action has it."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    (found,) = re.findall(r"      run: \|\n((?:        .*\n)+)", text)
    return textwrap.dedent(found)


def act(shard: str, systems: str) -> tuple[int, set[str]]:
    """Run the step; returns its status, and the names of the reports."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action_step()],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
             "SYSTEMS": systems, "SHARD": shard, "REPORTS": f"reports {shard[0]}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "rror:" not in done.stderr, done.stderr
    return done.returncode, {path.name for path in Path(f"reports {shard[0]}").iterdir()}


SYSTEMS = "lease.py:SYSTEM --size Client=2\n\nbroken.py:SYSTEM\n"


@pytest.mark.usefixtures("folder")
def test_the_action_checks_every_system_of_its_shard() -> None:
    assert act("1/2", SYSTEMS) == (0, {"1.sarif", "1.html"})
    assert act("2/2", SYSTEMS) == (1, {"2.sarif", "2.html"})


@pytest.mark.usefixtures("folder")
def test_the_action_goes_on_after_a_violation() -> None:
    both = act("1/1", "broken.py:SYSTEM\nlease.py:SYSTEM\n")
    assert both == (1, {"1.sarif", "1.html", "2.sarif", "2.html"})


def collected(*arguments: str) -> str:
    """What pytest prints, without this project's settings."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir=.", *arguments],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_pytest_takes_a_spec_that_is_named() -> None:
    told = collected("lease.py", "broken.py")
    assert "FAILED broken.py::SYSTEM::one_holder" in told
    assert "one_holder violated for c=c0, d=c1 after 2 steps" in told
    assert "2 failed, 6 passed" in told  # the other is the deadlock
    assert "collected.py" not in told


def test_pytest_takes_specs_by_the_setting_and_no_others(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\npdproto_specs = lease.*\n", encoding="utf-8")
    (folder / "test_own.py").write_text("import lease\ndef test_own(): pass\n", encoding="utf-8")
    told = collected("-v")
    assert "lease.py::SYSTEM::one_holder PASSED" in told
    assert "test_own.py::test_own PASSED" in told
    assert "broken.py" not in told


def test_pytest_tells_a_mistake_in_a_spec_in_one_line(folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "from pdproto.spec import language as spec\nspec.Table(spec.Machine('m'), rows=(3,))\n",
        encoding="utf-8")
    told = collected("wrong.py")
    assert "wrong.py:2: rows= has 3: want a tuple of Row" in told
    assert "Traceback" not in told


def test_the_matcher_of_the_guide_finds_remarks(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    pattern = json.loads(found[1])["tasks"][0]["problemMatcher"]["pattern"]
    text = (folder / "lease.py").read_text(encoding="utf-8")
    text = text.replace("free = ", 'spare = server.relation("spare")\nfree = ')
    (folder / "lease.py").write_text(text, encoding="utf-8")
    main(["lint", "lease.py:SYSTEM"])
    first = capsys.readouterr().out.splitlines()[0]
    match = re.match(pattern["regexp"], first)
    assert match is not None, first
    assert (match[pattern["file"]], match[pattern["severity"]]) == ("lease.py", "warning")
    assert match[pattern["line"]].isdecimal()
