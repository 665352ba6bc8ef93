"""Serve check, lint, trace and why-not to an agent that writes specs, over stdin and stdout.

It speaks the Model Context Protocol. Each answer is that of the command of the same name, run anew,
so an edited spec counts at once. A spec is a program: serve only folders whose specs you would run.
"""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from pdproto import __version__
from pdproto.cli.options import whole_number

TIMEOUT_S: Final = 60
ABOUT: Final = """pdproto explores protocols that are written as transition tables, in Python.
A system is named by its file and attribute, as in page.py:SYSTEM. Begin with lint, which is fast.
When check finds a violation, the trace is the shortest one."""

Sizes = Mapping[str, int]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto mcp`."""
    parser.add_argument("--timeout", metavar="S", type=whole_number, default=TIMEOUT_S,
                        help=f"seconds for one answer (default: {TIMEOUT_S})")


def run(arguments: argparse.Namespace) -> int:
    """Serve until standard input ends; returns the exit status."""
    server(arguments.timeout).run("stdio")
    return 0


def server(timeout_s: int) -> MCPServer:
    """The server with its tools."""
    offered = MCPServer("pdproto", instructions=ABOUT, version=__version__, log_level="ERROR")

    @offered.tool()
    def check(
        system: str, sizes: Sizes | None = None, faults: Sequence[str] = (),
        properties: Sequence[str] = (),
    ) -> str:
        """Explore every state of a system and check its properties.

        sizes: elements of each sort, as in {"Worker": 2}. faults: layers of faults, instead of
        those of the configuration. properties: only these.
        """
        options = [*_many("--faults", faults), *_many("--property", properties), "--quiet"]
        return _answer(timeout_s, "check", _plain(system), *_sizes(sizes), *options)

    @offered.tool()
    def lint(system: str, sizes: Sizes | None = None) -> str:
        """Find unanswered events, ambiguous and unused rows, without exploring."""
        return _answer(timeout_s, "lint", _plain(system), *_sizes(sizes))

    @offered.tool()
    def trace(system: str, files: Sequence[str]) -> str:
        """Replay traces of real processes against a system; a rejected line is told with its row.

        files: the traces of all processes of one run.
        """
        return _answer(timeout_s, "trace", *map(_plain, files), "--system", _plain(system))

    @offered.tool()
    def why_not(
        system: str, row: str, path: Sequence[str] = (), sizes: Sizes | None = None
    ) -> str:
        """Say why a row cannot fire: the conditions of its guard that fail, for each instance.

        row: its name, or one instance, as in lend(w0). path: the rows that fire before, from the
        initial state, as in ["begin(w0)"].
        """
        to_it = ["--path", "; ".join(path)] if path else []
        return _answer(timeout_s, "explore", _plain(system), "--text", *_sizes(sizes), *to_it,
                       typed=f"w {' '.join(row.split())}\nq\n")

    return offered


def _answer(timeout_s: int, verb: str, *arguments: str, typed: str = "") -> str:
    """What the command prints, after a line with its exit status."""
    command = [sys.executable, "-m", "pdproto.cli.main", verb, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - pdproto itself
            command, input=typed, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {timeout_s} s: give smaller sizes"
    return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


def _sizes(sizes: Sizes | None) -> list[str]:
    return _many("--size", [f"{sort}={size}" for sort, size in (sizes or {}).items()])


def _many(option: str, values: Sequence[str]) -> list[str]:
    return [option, *map(_plain, values)] if values else []


def _plain(value: str) -> str:
    """The value, which is no option. Raises ToolError for one."""
    if value.startswith("-"):
        raise ToolError(f"{value!r} is an option, and no value")
    return value
