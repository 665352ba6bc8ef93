"""The server for agents, asked by a client of the protocol's own package."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from tests.docs.documents import ROOT

TRACE = '{"n":1,"node":"a","machine":"server","end":1,"begins":{},"own":{}}\n'
BACK = '{"n":2,"node":"a","machine":"server","end":1,"row":"give_back","on":"call done(c)",'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = (ROOT / "examples" / "lease.py").read_text(encoding="utf-8")
    (tmp_path / "lease.py").write_text(text, encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(TRACE + BACK + '"with":{"c":7}}\n', encoding="utf-8")
    return tmp_path


def asked(folder: Path, *calls: tuple[str, Mapping[str, Any]]) -> list[tuple[bool, str]]:
    """The answer of one server to each call: whether it is an error, and its text."""
    async def ask() -> list[tuple[bool, str]]:
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "pdproto.cli.main", "mcp"], cwd=folder)
        answers = []
        async with Client(started) as client:
            for name, arguments in calls:
                result = await client.call_tool(name, dict(arguments))
                (content,) = result.content
                assert isinstance(content, TextContent)
                answers.append((bool(result.is_error), content.text))
        return answers

    return asyncio.run(ask())


def test_each_tool_answers_as_its_command(folder: Path) -> None:
    checked, linted, traced, why, size = asked(
        folder,
        ("check", {"system": "lease.py:SYSTEM", "sizes": {"Client": 2}}),
        ("lint", {"system": "lease.py:SYSTEM"}),
        ("trace", {"system": "lease.py:SYSTEM", "files": ["a.jsonl"]}),
        ("why_not", {"system": "lease.py:SYSTEM", "row": "grant(c1)", "path": ["grant(c0)"]}),
        ("check", {"system": "lease.py:SYSTEM", "sizes": {"Clent": 2}}),
    )
    assert checked[1].startswith("exit status 0\n")
    assert "HOLDS  3 states" in checked[1]
    assert "lease: nothing to remark" in linted[1]
    assert traced[1].startswith("exit status 1\n")
    assert "a.jsonl, line 2: give_back cannot fire here" in traced[1]
    assert "grant(c1) needs for all d: not held(d)" in why[1]
    assert size[1].startswith("exit status 2\n")
    assert "Client" in size[1]


def test_an_edited_spec_counts_at_once_and_an_option_is_no_value(folder: Path) -> None:
    spec = folder / "lease.py"
    question = ("check", {"system": "lease.py:SYSTEM"})
    assert asked(folder, question)[0][1].startswith("exit status 0\n")
    spec.write_text(spec.read_text(encoding="utf-8").replace("when=free, ", ""), encoding="utf-8")
    after, option = asked(folder, question, ("check", {"system": "--table"}))
    assert "one_holder violated" in after[1]
    assert option[0]
    assert "'--table' is an option" in option[1]
