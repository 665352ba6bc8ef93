"""`make tag`: the version and the notes of a release come from the changelog."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

SCRIPT = ROOT / ".ci" / "tag"
NOTES = "\n- One thing.\n- `another`\n  thing.\n\n### Known problems\n\n- None.\n"
CHANGELOG = f"# Changelog\n\n## 1.2.0 (2026-11-30)\n{NOTES}\n## 1.1.0 (2026-10-01)\n\n- Older.\n"


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", repository, *arguments], check=True, capture_output=True, text=True
    ).stdout


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "Change a thing")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is ready for its release 1.2.0."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "n")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "e@x")
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci" / "tag")
    (tmp_path / "pdproto").mkdir()
    (tmp_path / "pdproto" / "__init__.py").write_text('__version__: Final = "1.2.0"\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    commit(tmp_path)
    return tmp_path


def tag(repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [repository / ".ci" / "tag"], cwd=repository, capture_output=True, text=True, check=False
    )


def refused(repository: Path) -> str:
    """Why the script tags nothing."""
    before = git(repository, "tag")
    done = tag(repository)
    assert done.returncode == 1
    assert git(repository, "tag") == before
    return done.stderr


def test_a_release_is_tagged_with_its_section_of_the_changelog(repository: Path) -> None:
    done = tag(repository)
    assert done.returncode == 0, done.stderr
    assert "v1.2.0" in done.stdout
    assert git(repository, "cat-file", "-t", "v1.2.0") == "tag\n"
    told = git(repository, "for-each-ref", "--format=%(contents)", "refs/tags/v1.2.0")
    assert told.strip() == f"pdproto 1.2.0\n\n{NOTES.strip()}"
    assert git(repository, "rev-parse", "v1.2.0^{commit}") == git(repository, "rev-parse", "HEAD")


def test_the_workflow_of_a_release_has_the_notes_of_the_tag(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After its checkout, which makes a tag without a message of the commit that is pushed."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert 'tags: ["v*"]' in workflow
    steps = re.findall(r"- run: (.*)", workflow)
    assert [step.split()[0] for step in steps] == ["git", "make", "gh"]
    assert "--notes-from-tag" in steps[-1]
    assert tag(repository).returncode == 0
    checkout = tmp_path_factory.mktemp("checkout")
    git(checkout, "init", "--quiet")
    git(checkout, "remote", "add", "origin", repository.as_uri())
    commit_id = git(repository, "rev-parse", "HEAD").strip()
    git(checkout, "fetch", "--quiet", "--depth", "1", "--no-tags", "origin",
        f"+{commit_id}:refs/tags/v1.2.0")
    assert git(checkout, "cat-file", "-t", "v1.2.0") == "commit\n"
    subprocess.run(["bash", "-c", steps[0]], cwd=checkout, check=True, capture_output=True,
                   env={**os.environ, "GITHUB_REF_NAME": "v1.2.0"})
    told = git(checkout, "for-each-ref", "--format=%(contents)", "refs/tags/v1.2.0")
    assert told.strip() == f"pdproto 1.2.0\n\n{NOTES.strip()}"


def test_a_section_without_a_day_is_no_release(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG.replace("2026-11-30", "unreleased"))
    commit(repository)
    assert "'1.2.0 (unreleased)': make it '1.2.0 (YEAR-MONTH-DAY)'" in refused(repository)


@pytest.mark.parametrize(("name", "text"), [
    ("pyproject.toml", 'version = "1.3.0"\n'),
    ("pdproto/__init__.py", '__version__: Final = "1.3.0"\n'),
])  # fmt: skip
def test_versions_that_differ_are_refused(repository: Path, name: str, text: str) -> None:
    (repository / name).write_text(text)
    commit(repository)
    assert "make them the same" in refused(repository)


def test_another_version_in_the_changelog_is_refused(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG.replace("## 1.2.0", "## 1.3.0"))
    commit(repository)
    assert "the first section of CHANGELOG.md is '1.3.0 (2026-11-30)'" in refused(repository)


def test_a_release_without_notes_is_refused(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG.replace(NOTES, "\n"))
    commit(repository)
    assert "says nothing of 1.2.0" in refused(repository)


def test_changes_that_are_not_committed_are_refused(repository: Path) -> None:
    (repository / "new.py").write_text("")
    assert "not committed" in refused(repository)


def test_a_version_is_tagged_once(repository: Path) -> None:
    assert tag(repository).returncode == 0
    assert "the tag v1.2.0 exists" in refused(repository)


def test_our_own_versions_are_the_same() -> None:
    """What the script compares, in the files that it reads."""
    version = (ROOT / "pyproject.toml").read_text().partition('\nversion = "')[2].partition('"')[0]
    assert f'__version__: Final = "{version}"\n' in (ROOT / "pdproto" / "__init__.py").read_text()
    first = (ROOT / "CHANGELOG.md").read_text().partition("\n## ")[2].partition(" ")[0]
    assert first == version
