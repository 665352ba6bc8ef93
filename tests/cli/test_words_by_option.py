"""Each new word of the language under each option: no false sentence, and no internal error.

The oracle (tests/oracle) says which of the small systems keep their claims. A command may refuse a
word, or not decide. Of a broken system it never says that all is well, and of the other one never
that it is broken.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from pdproto.cli.main import main
from tests.cli import word_systems
from tests.cli.word_systems import WORDS
from tests.oracle.answers import answer

SYSTEM: Final = "SYSTEM"
FRESH: Final = ("--no-cache", "--quiet")
ALONE: Final = ("--workers", "1")
STATES_MAX: Final = 100
HOLDS, VIOLATED, REFUSED, UNKNOWN, INTERNAL = range(5)

# Options that decide: of a broken system they say so.
EXACT: Final = {
    "plain": ("check", SYSTEM, *FRESH),
    "in Python": ("check", SYSTEM, *FRESH, "--engine", "portable"),
    "on disk": ("check", SYSTEM, *FRESH, "--engine", "duckdb"),
    "symmetry": ("check", SYSTEM, *FRESH, "--symmetry"),
    "dead bits": ("check", SYSTEM, *FRESH, "--dead-bits"),
    "both": ("check", SYSTEM, *FRESH, "--symmetry", "--dead-bits"),
    "both, in Python": ("check", SYSTEM, *FRESH, "--engine", "portable", "--symmetry",
                        "--dead-bits"),
    "all reports": ("check", SYSTEM, *FRESH, "--keep-going", "--workers", "2", "--coverage",
                    "--format", "github", "--html", "a.html", "--junit", "a.xml", "--sarif",
                    "a.sarif", "--mermaid", "a.mmd", "--json", "a.json"),
    "record": ("check", SYSTEM, "--quiet", "--keep-going", "--record", "counts.json"),
    "from the cache": ("check", SYSTEM, "--quiet", "--keep-going"),
    "explore": ("explore", SYSTEM, "--violation", "claim", "--text"),
}
# They prove, sample or bound a run: of a broken system they do not say that it holds.
PARTIAL: Final = {
    "prove": ("prove", SYSTEM, *FRESH, *ALONE),
    "cutoff": ("prove", SYSTEM, *FRESH, *ALONE, "--engine", "cutoff"),
    "quantified": ("prove", SYSTEM, *FRESH, *ALONE, "--engine", "quantified"),
    "bmc": ("prove", SYSTEM, *FRESH, *ALONE, "--bmc", "4"),
    "suggest": ("prove", SYSTEM, *FRESH, *ALONE, "--suggest"),
}
# They say "no violation was seen, which proves nothing".
SAMPLES: Final = {
    "fuzz": ("fuzz", SYSTEM, "--runs", "5"),
    "sim": ("sim", SYSTEM, "--seeds", "1", "--quiet"),
    "run": ("run", SYSTEM, "--runs", "20"),
}
# They give no verdict on the claim.
OTHERS: Final = {
    "lint": ("lint", SYSTEM), "tla": ("export", SYSTEM, "--tla", "--output", "word.tla"),
    "markdown": ("export", SYSTEM, "--markdown", "--output", "word.md"),
    "dot": ("export", SYSTEM, "--dot", "--output", "word.dot"),
    "step": ("explore", SYSTEM, "--text"),
    "mutate": ("mutate", SYSTEM, *FRESH, *ALONE, "--sample", "3"),
    "trace": ("trace", "--system", SYSTEM, "empty.jsonl"),
}
OPTIONS: Final = EXACT | PARTIAL | SAMPLES | OTHERS
QUICK: Final = ("plain", "in Python", "both", "all reports", "from the cache", "tla")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without earlier results, and a person who leaves `explore` at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.StringIO("quit\n"))
    (tmp_path / "empty.jsonl").touch()


def asked(command: Sequence[str], name: str) -> int:
    """The exit status of the command about a system."""
    where = f"{word_systems.__name__}:{name}"
    try:
        return main([where if one == SYSTEM else one for one in command])
    except SystemExit as ended:
        return INTERNAL if ended.code is None else int(ended.code)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("option", [
    pytest.param(option, marks=[] if option in QUICK else pytest.mark.nightly)
    for option in OPTIONS])
def test_no_word_makes_an_option_say_what_is_not_so(
    option: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = asked(OPTIONS[option], f"{word}_kept")
    broken = asked(OPTIONS[option], f"{word}_broken")
    out, err = capsys.readouterr()
    assert INTERNAL not in (kept, broken), err
    if option in OTHERS:
        return
    assert kept != VIOLATED or option in PARTIAL, out  # where a lemma lacks, a proof fails
    if option in EXACT and option != "explore":
        assert (kept, broken) == (HOLDS, VIOLATED), out + err
    elif option in PARTIAL:
        assert broken != HOLDS, out
    elif option in SAMPLES and broken == HOLDS:
        assert "proves nothing" in out or option == "run", out


@pytest.mark.parametrize("word", WORDS)
def test_the_oracle_says_which_claim_is_kept(word: str) -> None:
    for kept in (True, False):
        system = WORDS[word](kept)
        told = answer(system, system.configurations["default"], STATES_MAX)
        wrong = {name for name, one in told.verdicts.items() if one.violated}
        wrong |= {name for name, under in told.broken.items() if under}
        assert ("claim" in wrong) != kept
        assert not wrong or not kept


@pytest.mark.parametrize(("option", "status"), [("prove", UNKNOWN), ("suggest", REFUSED)])
def test_where_there_is_nothing_to_prove_nothing_is_proved(
    option: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red: of a broken leads_to without a ranking, `prove` had status 0, and `--suggest` said
    that it needs no lemma.
    """
    assert asked(OPTIONS[option], "strong_broken") == status
    out, err = capsys.readouterr()
    assert "needs no lemma" not in out
    assert "explored  claim" in out or "there is no safety property" in err
