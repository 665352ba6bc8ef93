"""Specs in the CI of their users: annotations, pytest, and editors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pdproto.check.lint import Remark, Severity
from pdproto.check.report import github
from pdproto.cli.main import main
from pdproto.spec.language.place import Place
from tests.docs.documents import ROOT
from tests.project.own_repository import repository

GUIDE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder: a spec that holds, and the same without its guard."""
    monkeypatch.chdir(repository(tmp_path / "repository"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path.cwd()


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
