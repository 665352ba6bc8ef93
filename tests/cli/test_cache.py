"""The verbs that recall answers of earlier runs."""

import json
from pathlib import Path

import pytest

from lab.__main__ import main
from pdproto.cli import prove, proved_before

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pdproto"


def asked(capsys: Output, *arguments: str) -> bool:
    """Whether `pdproto check lock-server` says that its answer is recalled."""
    assert main(["check", "lock-server", "--quiet", "--json", "-", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["states"] == 1_001
    return bool(told["recalled"])


def test_the_second_check_is_recalled(capsys: Output) -> None:
    assert [asked(capsys), asked(capsys)] == [False, True]
    assert main(["check", "lock-server", "--quiet"]) == 0
    assert "from an earlier run" in capsys.readouterr().out


def test_no_cache_explores_anew_and_keeps_nothing(capsys: Output, cache: Path) -> None:
    assert not asked(capsys, "--no-cache")
    assert not cache.exists()
    asked(capsys)
    assert not asked(capsys, "--no-cache")


def test_bugs_are_recalled(capsys: Output, cache: Path) -> None:
    told = []
    for _ in range(2):
        assert main(["bugs", "first-come", "--quiet", "--json", "-"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert len(list((cache / "results").iterdir())) == len(told[0])
    assert [trial["result"].pop("recalled") for trials in told for trial in trials] \
        == [False] * len(told[0]) + [True] * len(told[0])
    assert told[0] == told[1]


def test_an_unchanged_proof_is_recalled(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No table is read. It is proved again for other code, other arguments, and --no-cache."""
    said = []
    for _ in range(2):
        assert main(["prove", "lock-server", "--quiet"]) == 0
        said.append(capsys.readouterr().out)
    assert said[1] == f"{said[0]}from an earlier run: nothing has changed\n"
    monkeypatch.setattr(prove, "subject", _asked_again)
    assert main(["prove", "lock-server", "--quiet", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["proved"] > 0
    for options in (["--no-cache"], ["--timeout", "31"], ["--faults", "none"]):
        with pytest.raises(AskedAgain):
            main(["prove", "lock-server", "--quiet", *options])
    monkeypatch.setattr(proved_before, "contents", lambda: "other code")
    with pytest.raises(AskedAgain):
        main(["prove", "lock-server", "--quiet"])


class AskedAgain(BaseException):
    """A proof was not recalled."""


def _asked_again(*_: object) -> object:
    raise AskedAgain


def test_a_failed_proof_is_not_recalled(capsys: Output) -> None:
    for _ in range(2):
        assert main(["prove", "lock-server-broken", "--property", "mutual_exclusion",
                     "--quiet"]) == 1
        assert "from an earlier run" not in capsys.readouterr().out
