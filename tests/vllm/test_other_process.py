"""A process with the pages of SGLang and one with those of vLLM, of latent attention (MLA), which
both engines keep as one vector a token. Whatever differs is refused with both values.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pdproto
from pdproto.runtime.versions import VERSION

HERE = Path(pdproto.__file__).parent
SCRIPT = Path(__file__).with_name("other_engine_process.py")
BLOCK = 32
pytestmark = pytest.mark.slow
ENGINES = pytest.mark.parametrize(("first", "second"), [("SGLang", "vLLM"), ("vLLM", "SGLang")])


class End(NamedTuple):
    """How a hand-over has ended at one process. pages: their bytes, in hexadecimal."""

    status: str
    failure: str
    pages: str
    warnings: list[str]


def hand_over(
    prefill: str, decode: str, *, tokens: tuple[int, int] = (BLOCK, BLOCK), package: Path = HERE
) -> tuple[End, End]:
    """Between two engines. tokens: of a page at each. package: of prefill's process."""
    with ExitStack() as closing:
        def begin(role: str, engine: str, page: int, its: Path) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), role, engine, str(page)], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": str(its.parent)})
            closing.callback(process.communicate, timeout=10)
            closing.callback(process.kill)
            return process

        both = (begin("prefill", prefill, tokens[0], package),
                begin("decode", decode, tokens[1], HERE))
        endpoints = [_read(process)[0] for process in both]
        for process, name, endpoint in zip(both, ("decode", "prefill"), endpoints[::-1],
                                           strict=True):
            _write(process, [name, endpoint])
        ends = [End(*_read(process)) for process in both]
    return ends[0], ends[1]


def _read(process: subprocess.Popen[str]) -> list[Any]:
    assert process.stdout is not None
    found: list[Any] = json.loads(process.stdout.readline())
    return found


def _write(process: subprocess.Popen[str], told: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(told) + "\n")
    process.stdin.flush()


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[Callable[[str, str, str], Path]]:
    """A copy of pdproto in which one line of a module is another one."""
    package = tmp_path / "pdproto"

    def change(module: str, pattern: str, by: str) -> Path:
        # With the compiled modules, but for those that another process is writing.
        shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("*.pyc.*"))
        text, count = re.subn(pattern, by, (package / module).read_text())
        assert count == 1, f"{module}: {pattern} is there {count} times"
        (package / module).write_text(text)
        return package

    yield change
    shutil.rmtree(package, ignore_errors=True)


@ENGINES
def test_pages_of_latent_attention_that_are_equal_are_handed_over(first: str, second: str) -> None:
    """Nothing about a hand-over is particular to one engine."""
    ends = hand_over(first, second)
    assert [end.status for end in ends] == ["SUCCESS", "SUCCESS"]
    assert ends[0].pages == ends[1].pages != ""


@ENGINES
def test_pages_of_another_size_are_refused_with_both_sizes(first: str, second: str) -> None:
    prefill, decode = hand_over(first, second, tokens=(16, BLOCK))
    assert decode.status == "FAILED", prefill
    assert "kv: items of 768 bytes there and 1536 here: want the same model, dtype and page size" \
        in decode.failure


@ENGINES
def test_other_digests_are_noticed(
    changed: Callable[[str, str, str], Path], first: str, second: str
) -> None:
    """As of a release that computes them in another way."""
    package = changed("pages/chunks.py", r"repr\(identity\)", "repr((*identity, 'other'))")
    prefill, decode = hand_over(first, second, package=package)
    assert decode.status == "FAILED", prefill
    assert "the digests of the bytes of prefill do not agree" in decode.failure


@ENGINES
def test_another_version_of_the_protocol_is_refused_with_both(
    changed: Callable[[str, str, str], Path], first: str, second: str
) -> None:
    """By prefill, which hears decode first, and answers which version it reads."""
    package = changed("runtime/versions.py",
                      r"(?m)^VERSION: Final = \d+\nOLDEST: Final = \d+$",
                      f"VERSION: Final = {VERSION + 1}\nOLDEST: Final = {VERSION + 1}")
    prefill, decode = hand_over(first, second, package=package)
    assert (prefill.status, decode.status) == ("FAILED", "FAILED")
    assert not decode.pages.strip("0"), "nothing is written"
    told = [line for line in prefill.warnings if "version: " in line]
    assert told, prefill
    assert re.search(rf" speaks {VERSION}, and .* {VERSION + 1}\b", told[0]), told[0]
    assert re.fullmatch(rf"lost connection to prefill: version: the peer speaks {VERSION + 1}, and "
                        rf"this node {VERSION}", decode.failure), decode.failure
