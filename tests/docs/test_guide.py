"""Guides to one's own tables: their files, their commands in order, and what they print."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = ("tutorial/check-your-own-protocol.md", "how-to/edit-tables.md")
SPECS = ("vote", "twice", "defects", "stream", "answer")
AT_THE_END = ", at the end"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The reader's folder, which is forgotten afterwards; what is proved there is as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for spec in SPECS:
        monkeypatch.delitem(sys.modules, spec, raising=False)
    yield tmp_path
    for spec in SPECS:
        sys.modules.pop(spec, None)


def saved(folder: Path, text: str) -> None:
    """Write or extend the file that the first line of a block names."""
    name, _, source = text.removeprefix("# ").partition("\n")
    path = folder / name.removesuffix(AT_THE_END)
    before = path.read_text(encoding="utf-8") if name.endswith(AT_THE_END) else ""
    path.write_text(before + source, encoding="utf-8")


def entered(line: str) -> None:
    """Run a command of the guide, each in a Python that has not seen the spec."""
    for spec in SPECS:
        sys.modules.pop(spec, None)
    command, *arguments = shlex.split(line)
    if command == "python":
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
    else:
        assert command == "pdproto"
        quiet = ["--quiet"] if arguments[0] in ("check", "prove", "sim") else []
        main([*arguments, *quiet])


@pytest.mark.parametrize("guide", GUIDES)
def test_the_guide_shows_the_real_output(
    guide: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line below a command is printed by it, in this order; line breaks apart."""
    page = (DOCS / guide).read_text(encoding="utf-8")
    commands = 0
    for kind, text in re.findall(r"^```(python|console)\n(.*?)^```$", page,
                                 re.MULTILINE | re.DOTALL):
        if kind == "python":
            saved(folder, text)
            continue
        for command in text.removeprefix("$ ").split("\n$ "):
            line, *lines = command.splitlines()
            commands += 1
            entered(line)
            out, err = capsys.readouterr()
            assert err == "", line
            printed = "".join(out.split())
            for expected in lines:
                _, found, printed = printed.partition("".join(expected.split()))
                assert found, (line, expected, out)
    assert commands == len(re.findall(r"^\$ ", page, re.MULTILINE))
