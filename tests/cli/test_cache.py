"""`pdproto cache`, and the verbs that recall answers."""

import json
from pathlib import Path

import pytest

from pdproto.cli.main import main

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


def test_cache_shows_and_clears(capsys: Output, cache: Path) -> None:
    asked(capsys)
    assert main(["prove", "lock-server", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["cache"]) == 0
    shown = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    kept = str(len(list((cache / "proofs").iterdir())))
    assert shown == [["kept", "files"], ["results", "1"], ["mutants", "0"], ["proofs", kept]]
    assert main(["cache", "--clear"]) == 0
    assert not [path for path in cache.rglob("*") if path.is_file()]
    capsys.readouterr()
    assert main(["cache"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == ["0"] * 3
