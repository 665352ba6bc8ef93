"""`pdproto prove --html`: each claim, and the step that breaks it as a picture."""

import json
import re
from pathlib import Path

import pytest

from pdproto.cli.main import main
from pdproto.spec.language import TRUE, Always, LeadsTo, System, implies
from tests.check.report.page_reader import PageReader
from tests.prove.test_verdicts import ROWS, SPOILT, bad, worse

Output = pytest.CaptureFixture[str]

UNRANKED = System("unranked", "", (ROWS,), (LeadsTo("worsens", bad(), worse()),), final=TRUE)
KEPT = System("kept", "", (ROWS,), (Always("first_bad", implies(worse(), bad())),), final=TRUE)
__all__ = ["SPOILT"]  # a command asks about it by the name of this module


def page(capsys: Output, tmp_path: Path, *arguments: str) -> tuple[int, str, dict[str, object]]:
    """The exit status, the page, and the result that is in it."""
    target = tmp_path / "proof.html"
    status = main(["prove", *arguments, "--no-cache", "--quiet", "--html", str(target)])
    capsys.readouterr()
    text = target.read_text(encoding="utf-8")
    PageReader(text)
    embedded = re.search(r'id="result">(.*?)</script>', text, flags=re.DOTALL)
    assert embedded is not None
    return status, text, json.loads(embedded[1])


def test_the_step_that_breaks_a_claim_is_drawn(capsys: Output, tmp_path: Path) -> None:
    status, text, result = page(capsys, tmp_path, "lock-server-broken",
                                "--property", "mutual_exclusion")
    assert status == 1
    properties = result["properties"]
    assert isinstance(properties, list)
    first = properties[0]
    assert first["name"] == "mutual_exclusion at enter"
    (step,) = first["trace"]
    assert step["row"] == "enter"
    assert first["start_holds"] == {"mutual_exclusion at enter": True}
    assert step["holds"] == {"mutual_exclusion at enter": False}
    assert first["supposed"] is True
    assert "is not inductive" in first["note"]
    assert "a supposed state" in text
    assert "the initial state" not in text.split("<script")[0]
    assert "mutual_exclusion at enter</b> stops holding" in text or (
        "stops holding" in text)
    assert ">not proved</p>" in text
    assert "violated, " not in text.split("<script")[0]


def test_a_proof_lists_its_claims(capsys: Output, tmp_path: Path) -> None:
    status, text, result = page(capsys, tmp_path, "two-phase-commit")
    assert status == 0
    properties = result["properties"]
    assert isinstance(properties, list)
    assert {"agreement", "heard_has_been_said"} <= {one["name"] for one in properties}
    assert all("trace" not in one for one in properties)
    assert re.search(r"<dt>obligations</dt>\s*<dd>39</dd>", text)
    assert "It is proved, as is told above" in text
    assert "Every row fired" not in text
    assert "not proved here" not in text
    assert ">not proved</p>" not in text


@pytest.mark.parametrize("arguments", [(), ("lock-server", "--suggest")])
def test_only_one_proof_has_a_page(capsys: Output, arguments: tuple[str, ...]) -> None:
    assert main(["prove", *arguments, "--html", "x.html"]) == 2
    assert capsys.readouterr().err == (
        "pdproto: --html shows the proof of one system: name it, and leave out --suggest\n")


def test_a_claim_that_rests_on_a_false_one_is_not_said_to_be_proved(
    capsys: Output, tmp_path: Path
) -> None:
    status, text, _ = page(capsys, tmp_path, "tests.prove.test_verdicts:SPOILT",
                           "--property", "follows")
    assert status == 1
    assert "it rests on not_bad, never_bad, not proved here" in text
    assert "It is proved, as is told above" not in text
    assert ">not proved</p>" in text


@pytest.mark.parametrize(("attribute", "asked", "status", "verdict", "word"), [
    ("UNRANKED", (), 3, "unknown", "not decided"),
    ("SPOILT", ("--property", "follows"), 1, "failed", "not proved"),
    ("SPOILT", ("--property", "not_worse"), 1, "failed", "not proved"),
    ("KEPT", (), 0, "proved", "proved"),
])
def test_every_form_has_the_verdict_of_the_exit_status(
    capsys: Output, tmp_path: Path, attribute: str, asked: tuple[str, ...], status: int,
    verdict: str, word: str,
) -> None:
    """Also where nothing was proved, and where a claim rests on one that fails."""
    told = tmp_path / "proof.json"
    ended, text, result = page(capsys, tmp_path, f"tests.prove.test_proof_page:{attribute}",
                               *asked, "--json", str(told))
    assert (ended, json.loads(told.read_text())["verdict"]) == (status, verdict)
    assert f">{word}</p>" in text
    holds = {0: "holds", 1: "violated", 3: "unknown"}
    assert result["verdict"] == holds[status]
