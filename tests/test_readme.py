"""What the README shows is what happens: its spec, its picture, its commands, its paths."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pdproto.check.load import BUILT_IN
from pdproto.cli.main import main, parser_for
from pdproto.spec import language

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

(PAGE,) = re.findall(
    r"^Save this as `page.py`:\n\n```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
)
(PICTURE,) = re.findall(r"^```\n(mutual_exclusion .*?)^```$", README, re.MULTILINE | re.DOTALL)

# Shown in a block of their own, with a remark behind them, or in a sentence; then the synopsis.
SHOWN = [
    *re.findall(r"^    (pdproto [^\[#\n]*?) *(?:#.*)?$", README, re.MULTILINE),
    *re.findall(r"`(pdproto [^`]*)`", README),
]
(SYNOPSIS,) = re.findall(r"^    (pdproto check SYSTEM \[.*?)\n\n", README, re.MULTILINE | re.DOTALL)

Output = pytest.CaptureFixture[str]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's folder, with the spec in it that the README says to save."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "page.py").write_text(PAGE, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "page", raising=False)


def shown(verb: str) -> list[str]:
    """The arguments of the one command that the README gives for its spec and this verb."""
    (command,) = (line for line in SHOWN if line.startswith(f"pdproto {verb} page.py:SYSTEM"))
    return shlex.split(command)[1:]


@pytest.mark.usefixtures("page")
class TestCheckYourOwn:
    def test_check_finds_the_deadlock_and_no_second_writer(self, capsys: Output) -> None:
        assert main([*shown("check"), "--quiet"]) == 1
        told = capsys.readouterr().out
        assert re.search(r"^holds +one_writer ", told, re.MULTILINE)
        assert re.search(r"^holds +somebody_writes ", told, re.MULTILINE)
        assert re.search(r"^violated +deadlock ", told, re.MULTILINE)
        # The worker without the page waits, and the pool cannot lend what was not given back.
        _, _, stuck = told.partition("stuck: no fair row can fire\n")
        assert re.search(r"lend\(w\d\) at pool needs\n +for all v: not lent\(v\)", stuck)

    def test_lint_finds_the_message_that_no_row_answers(self, capsys: Output) -> None:
        assert main(shown("lint")) == 1
        told = capsys.readouterr().out
        assert "error: totality: pool has no row for ask(w) (where w = w0, lent(w0))" in told

    def test_tables_writes_what_is_promised(self, capsys: Output) -> None:
        assert main(shown("tables")) == 0
        told = capsys.readouterr().out
        assert told.startswith("# page\n")
        assert "| `phase` | call `begin` | on `give(w)` |" in told  # states by triggers
        assert "```mermaid\nstateDiagram-v2\n" in told


def test_the_picture_is_the_one_that_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pdproto.cli.main", "check", "lock-server-broken", "--quiet"],
        cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    printed = done.stdout[done.stdout.index("mutual_exclusion violated") :]
    assert [line.rstrip() for line in printed.splitlines()] == PICTURE.splitlines()
    assert max(map(len, PICTURE.splitlines())) <= 80


def test_there_are_commands_to_hold_to() -> None:
    verbs = {shlex.split(command)[1] for command in SHOWN}
    assert {"check", "lint", "tables", "export", "bench"} <= verbs


@pytest.mark.parametrize("command", sorted(set(SHOWN)))
def test_commands_are_understood(command: str) -> None:
    arguments = shlex.split(command)[1:]
    if arguments[1:]:
        assert parser_for(arguments).parse_args(arguments).verb == arguments[0]
    else:
        assert re.search(f"^    {arguments[0]} ", parser_for(()).format_help(), re.MULTILINE)


def test_the_synopsis_names_options_that_there_are(capsys: Output) -> None:
    named = set(re.findall(r"--[a-z-]+", SYNOPSIS))
    assert {"--size", "--faults", "--property", "--html", "--json"} <= named
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert named <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


@pytest.mark.parametrize("name", sorted({
    name for command in SHOWN
    for name in re.findall(r"^pdproto check ([a-z][a-z-]+)(?: |$)", command)
} | set(re.findall(r"^\| `([a-z-]+)` \|", README, re.MULTILINE))
  | set(re.findall(r"`((?:transfer|agreement|optimistic|two)-[a-z]+)`", README))))  # fmt: skip
def test_systems_that_are_named_are_built_in(name: str) -> None:
    assert name in BUILT_IN


@pytest.mark.parametrize("name", sorted({
    path.rstrip(".") for path in re.findall(
        r"(?<![\w/])(?:spec|pdproto|kernels|proofs|tests|docs|\.ci)/[\w./*-]*", README)
    if "NAME" not in path
}))  # fmt: skip
def test_paths_that_are_named_exist(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z]+)\b(?=`| +#)", README))))
def test_targets_of_make_that_are_named_exist(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_words_of_the_language_are_exported() -> None:
    section = README[README.index("## The language") : README.index("**Locality.**")]
    words = set(re.findall(r"`([A-Z][A-Za-z]+|each|edited)\b", section))
    assert {"Sort", "Row", "Always", "each"} <= words
    assert not [word for word in words if not hasattr(language, word)]


def test_the_hand_over_that_is_shown_runs(tmp_path: Path) -> None:
    shown_block = r"^```python\n(import asyncio\n.*?)^```$"
    (block,) = re.findall(shown_block, README, re.MULTILINE | re.DOTALL)
    (tmp_path / "shown.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.stdout == "{'prefill-0': b'the first token'}\n", done.stderr
