"""SGLang's own classes over the backend, in two processes: `make test-sglang` installs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang", reason="make test-sglang installs SGLang, 2.3 GB, and runs this")

ROOT = Path(__file__).resolve().parents[2]


def drill(tmp_path: Path, *options: str, engine: str = "tcp") -> dict[str, Any]:
    numbers = tmp_path / "numbers.json"
    done = subprocess.run(
        [sys.executable, "-m", "examples.sglang_handoff", "--json", str(numbers), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SGLANG_HOST_IP": "127.0.0.1",
             "PDPROTO_ENGINE": engine},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(numbers.read_text())
    assert found["wrong"] == []
    assert found["left"] == {}
    return found


@pytest.mark.parametrize("engine", ["tcp", "shm"])
def test_every_byte_and_every_row_of_metadata_is_right(tmp_path: Path, engine: str) -> None:
    found = drill(tmp_path, "--requests", "60", "--in-flight", "8", "--chunks", "3",
                  engine=engine)
    assert found["succeeded"] == 60


def test_either_side_aborts_and_both_are_told_why(tmp_path: Path) -> None:
    found = drill(tmp_path, "--requests", "60", "--in-flight", "8", "--abort-every", "4")
    assert found["succeeded"] >= 45
    assert 0 < found["failed"] <= 15
    assert any("aborted by the prefill scheduler" in why for why in found["reasons"])
    assert any("aborted by the decode scheduler" in why for why in found["reasons"])
