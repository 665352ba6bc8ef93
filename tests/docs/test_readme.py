"""What the documents show is what happens: their spec, picture, commands, paths and snippets.

All documents but those that a program writes. (The tutorial on a protocol of one's own is run as a
whole by test_guide.py.)
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lab.designs import EVERY
from pdproto.cli import node
from pdproto.cli.main import VERBS, main, parser_for
from pdproto.cli.systems import BUILT_IN
from pdproto.spec import language
from pdproto.spec.bugs.catalogue import BUGS
from tests.docs.documents import ROOT, pages, read

README = read(ROOT / "README.md")
DOCS = ROOT / "docs"
GUIDE = DOCS / "tutorial" / "check-your-own-protocol.md"
GENERATED = ("servers-gpu.md", "properties.md", "servers.md", "sglang-settings.md", "soak.md",
             "soak-million.md", "tests-see-defects.md", "vllm-servers.md")
SHOWING = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(path for path in pages() if path.is_relative_to(DOCS) and path.parent != DOCS / "tables"
      and path.name not in GENERATED),
]  # fmt: skip
TEXT = "\n".join(map(read, SHOWING))
SYSTEMS = read(DOCS / "reference" / "systems.md")

(PAGE,) = re.findall(
    r"^Save this as `page.py`:\n\n```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
)
(PICTURE,) = re.findall(r"^```\n(deadlock violated .*?)^```$", README, re.MULTILINE | re.DOTALL)

# Shown in a block of their own, with a remark behind them, or in a sentence; then the synopsis.
SHOWN = [
    *re.findall(r"^ {4,8}(pdproto [^\[#\n]*?) *(?:#.*)?$", TEXT, re.MULTILINE),
    *re.findall(r"^\$ (pdproto .*?)$", TEXT, re.MULTILINE),
    *re.findall(r"`(pdproto [^`]*)`", TEXT),
]
COMMANDS = sorted({" ".join(re.sub(r" (> \S+|&)$", "", command).split()) for command in SHOWN})
(SYNOPSIS,) = re.findall(r"^    (pdproto check SYSTEM \[.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)

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
    ours = re.findall(r"^    (pdproto [^\[#\n]*?) *(?:#.*)?$", README, re.MULTILINE)
    (command,) = (line for line in ours if line.startswith(f"pdproto {verb} page.py:SYSTEM"))
    return shlex.split(command)[1:]


@pytest.mark.usefixtures("page")
class TestCheckYourOwn:
    def test_check_finds_the_deadlock_and_no_second_writer(self, capsys: Output) -> None:
        assert main([*shown("check"), "--quiet"]) == 1
        told = capsys.readouterr().out
        assert re.search(r"^holds +one_writer ", told, re.MULTILINE)
        assert re.search(r"^holds +a_worker_writes ", told, re.MULTILINE)
        assert re.search(r"^violated +deadlock ", told, re.MULTILINE)
        # The worker without the page waits, and the pool cannot lend what was not given back.
        _, _, stuck = told.partition("stuck: no fair row can fire\n")
        assert re.search(r"lend\(w\d\) at pool needs\n +for all v: not lent\(v\)", stuck)

    def test_the_picture_is_the_one_that_check_draws(self, capsys: Output) -> None:
        assert main([*shown("check"), "--quiet"]) == 1
        told = capsys.readouterr().out
        drawn = told[told.index("deadlock violated") : told.index("\n\nevery_message_is_answered")]
        assert [line.rstrip() for line in drawn.splitlines()] == PICTURE.splitlines()
        assert max(map(len, PICTURE.splitlines())) <= 80

    def test_lint_finds_the_message_that_no_row_answers(self, capsys: Output) -> None:
        assert main(shown("lint")) == 1
        told = capsys.readouterr().out
        assert "error: totality: pool has no row for ask(w) (where w = w0, lent(w0))" in told

    def test_tables_writes_the_promised_page(self, capsys: Output) -> None:
        assert main(shown("export")) == 0
        told = capsys.readouterr().out
        assert told.startswith("# page\n")
        assert "| `phase` | call `begin` | on `give(w)` |" in told  # states by triggers
        assert "```mermaid\nstateDiagram-v2\n" in told


def test_there_are_commands_to_hold_to() -> None:
    verbs = {shlex.split(command)[1] for command in COMMANDS}
    assert {"check", "lint", "export", "prove", "handoff", "registry", "sim",
            "trace"} <= verbs  # fmt: skip


def test_commands_are_understood() -> None:
    assert [command for command in COMMANDS if not is_understood(shlex.split(command)[1:])] == []


def is_understood(arguments: list[str]) -> bool:
    """Whether the verb and its options are those of the command line."""
    if not arguments[1:]:
        return arguments[0] in {*VERBS, "--help"}
    if arguments[0] == "node" and not arguments[2:]:
        return arguments[1] in {name for name, _, _ in node.PARTS}
    try:
        return bool(parser_for(arguments).parse_args(arguments).verb == arguments[0])
    except SystemExit:
        return False


def test_the_synopsis_names_options_that_there_are(capsys: Output) -> None:
    named = set(re.findall(r"--[a-z-]+", SYNOPSIS))
    assert {"--size", "--faults", "--property", "--html", "--json"} <= named
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert named <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_systems_that_are_named_are_built_in() -> None:
    named = {
        name for command in COMMANDS
        for name in re.findall(r"^pdproto (?:check|prove|lint) ([a-z][a-z-]+)(?: |$)", command)
    } | set(re.findall(r"^\| `([a-z][a-z-]+)` \|", SYSTEMS, re.MULTILINE)) | set(
        re.findall(r"`((?:transfer|agreement|optimistic|complete|two)-[a-z-]+)`", TEXT))
    assert named
    assert named - set(BUILT_IN) == set()


def test_defects_that_are_named_are_in_the_catalogue() -> None:
    named = {name for command in COMMANDS
             for name in re.findall(r"--bug ([\w-]+)$", command)}
    named |= set(re.findall(r"python -m lab bugs ([\w-]+)`?$", TEXT, re.MULTILINE))
    named -= {"NAME", "ID"}
    assert named
    assert named - {bug.id for bug in EVERY} == set()


def test_the_number_of_defects_is_that_of_the_catalogue() -> None:
    sources = {bug.id: bug.source for bug in BUGS}
    ours = sum(source.startswith(("pdproto", "no report")) for source in sources.values())
    told = re.findall(r"(\d+) defects of SGLang, .*, and (\d+) that\s+we found", README)
    assert told == [(str(len(sources) - ours), str(ours))]
    assert set(re.findall(r"(\d+) historical\s+defects", TEXT)) == {str(len(sources))}


def test_paths_that_are_named_exist() -> None:
    named = {
        path.rstrip(".") for path in re.findall(
            r"(?<![\w/])(?:spec|pdproto|kernels|proofs|tests|docs|\.ci)/[\w./*-]*", TEXT)
        if "NAME" not in path and "*" not in path
    }  # fmt: skip
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_targets_of_make_that_are_named_exist() -> None:
    named = set(re.findall(r"(?:^    |`)make ([a-z][a-z-]*)(?=[` \n])", TEXT, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named
    assert named - set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set()


def test_modules_that_are_named_can_be_run() -> None:
    named = set(re.findall(r"python -m ([\w.]+\w)", TEXT)) - {
        "mpi4py.futures", "pytest", "sglang.launch_server", "sglang_router.launch_router"}
    assert named
    assert [module for module in sorted(named) if not can_be_run(module)] == []


def can_be_run(module: str) -> bool:
    """Whether `python -m` finds it in this repository."""
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def test_the_figures_of_the_readme_are_those_of_the_reference() -> None:
    rows = re.findall(r"^\| [^|`]+ \| ([^|]+) \| `(?:pdproto|python -m).*", README, re.MULTILINE)
    told = read(DOCS / "reference" / "speed.md")
    assert len(rows) == 4
    assert [figure for figure in rows if figure.removesuffix(" x its Mooncake backend")
            not in told] == []  # fmt: skip


def test_the_words_of_the_language_are_exported() -> None:
    text = read(DOCS / "reference" / "language.md")
    words = set(re.findall(r"`([A-Z][A-Za-z]+|each|edited)\b", text[: text.index("## Locality")]))
    words -= {"True", "False", "Ballot"}  # those of Python, and of an example
    assert {"Sort", "Row", "Always", "each"} <= words
    assert not [word for word in words if not hasattr(language, word)]


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TAKES_WORDS = "sys.argv"  # such a program is run by a test of its own (tests/e2e/test_operated.py)
PRINTED = re.compile(r"^ *print\(.*\) +# (.*)$", re.MULTILINE)
SNIPPETS = {
    f"{path.relative_to(ROOT)}-{number}": block
    for path in SHOWING if path != GUIDE
    for number, block in enumerate(BLOCK.findall(read(path)))
    if block != PAGE and TAKES_WORDS not in block
}  # fmt: skip


def test_there_are_snippets_to_run() -> None:
    assert len(SNIPPETS) >= 6
    assert sum(bool(PRINTED.search(block)) for block in SNIPPETS.values()) >= 4


@pytest.mark.parametrize("name", sorted(SNIPPETS))
def test_a_snippet_runs_and_prints_its_output(name: str, tmp_path: Path) -> None:
    block = SNIPPETS[name]
    (tmp_path / "shown.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PRINTED.findall(block), done.stderr
