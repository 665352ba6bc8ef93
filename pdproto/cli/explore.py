"""Step through a system in the browser: the rows that can fire, those that cannot and why.

A page is served on this machine alone, until Ctrl-C. It starts in the initial state, or at the end
of a counterexample, of a recorded run, or of a path. The address of the page holds the path, so it
can be kept as a link, and the browser's Back undoes a step.
"""

import argparse
import asyncio
import os
import webbrowser
from typing import Final
from urllib.parse import quote

from pdproto.check.stepping.server import ExploreApp, serve
from pdproto.cli.numbers import port
from pdproto.cli.options import UsageError
from pdproto.cli.reports import say
from pdproto.cli.starting import SEPARATOR, Start, add_start, start

PORT: Final = 8484  # links keep their port from one run to the next


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto explore`."""
    add_start(parser)
    parser.add_argument(
        "--port", metavar="N", type=port,
        help=f"the port of the page; 0 takes a free one (default: {PORT}, or a free one)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve the page; returns the exit status."""
    begun = start(arguments)
    for line in begun.told:
        say(line)
    app = ExploreApp(begun.walker, begun.source, list(begun.facts))

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
