"""Step through a system in the browser: the rows that can fire, those that cannot and why.

A page is served on this machine alone, until Ctrl-C. It starts in the initial state, or at the end
of a counterexample, of a recorded run, or of a path. The address of the page holds the path, so it
can be kept as a link, and the browser's Back undoes a step.

--text does the same in the terminal: numbered rows, why others cannot fire, undo. Its commands come
from standard input, so a walk can be replayed from a file.

When a file of the system is saved, neither answers any more: start it again. The address goes on.
"""

import argparse
import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote

from pdproto.check.result import EXIT_STATUS, Verdict
from pdproto.check.stepping.dialogue import STALE, Dialogue
from pdproto.cli.numbers import port
from pdproto.cli.options import UsageError, standard_output
from pdproto.cli.reports import say
from pdproto.cli.starting import SEPARATOR, Start, add_start, start
from pdproto.cli.watch import changes

PORT: Final = 8484  # links keep their port from one run to the next


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto explore`."""
    add_start(parser)
    parser.add_argument("--text", action="store_true",
                        help="in the terminal, with commands from standard input")
    parser.add_argument(
        "--port", metavar="N", type=port,
        help=f"the port of the page; 0 takes a free one (default: {PORT}, or a free one)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve the page, or answer line by line, until the user ends it; returns the exit status."""
    if arguments.text and (arguments.open or arguments.port is not None):
        raise UsageError("--text serves no page: leave out --port and --open")
    begun = start(arguments)
    changed = changes(arguments.system)
    for line in begun.told:
        say(line)
    if arguments.text:
        return _answer(begun, changed)
    return _serve(begun, arguments, changed)


def _serve(begun: Start, arguments: argparse.Namespace, changed: Callable[[], str]) -> int:
    from pdproto.check.stepping.server import (  # noqa: PLC0415 - --text needs no aiohttp
        ExploreApp,
        serve,
    )

    app = ExploreApp(begun.walker, begun.source, list(begun.facts), changed)

    def told(address: str) -> None:
        link = address + _fragment(begun)
        print(f"{begun.walker.system.name}: {link}  (Ctrl-C ends)",  # noqa: T201 - the result
              flush=True)
        if arguments.open:
            webbrowser.open(link)

    ports = (PORT, 0) if arguments.port is None else (arguments.port,)
    for number in ports:
        try:
            asyncio.run(serve(app, number, told))
        except OSError as error:
            failure = error
        else:
            return 0
    # asyncio tells the address in words of its own.
    why = os.strerror(failure.errno) if failure.errno else str(failure)
    raise UsageError(f"cannot listen at port {ports[-1]}: {why}; --port 0 takes a free one")


def _fragment(begun: Start) -> str:
    path = SEPARATOR.join("".join(label.split()) for label in begun.path)
    return f"#{quote(path, safe='();,')}" if path else ""


def _answer(begun: Start, changed: Callable[[], str]) -> int:
    dialogue = Dialogue(begun.walker, begun.source, begun.path)
    facts = ", ".join(f"{label} {value}" for label, value in begun.facts)
    _say([f"{begun.walker.system.name}: {facts}", *dialogue.opening()])
    for line in _lines():
        if file := changed():
            say(STALE.format(file))
            return EXIT_STATUS[Verdict.UNKNOWN]
        _say(dialogue.answer(line))
        if dialogue.over:
            break
    return 0


def _lines() -> Iterator[str]:
    """The lines of the user, with a prompt at a terminal."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return


def _say(lines: Iterable[str]) -> None:
    with standard_output() as stream:
        stream.writelines(f"{line}\n" for line in lines)
