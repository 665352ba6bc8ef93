"""Step through a system in the browser: the rows that can fire, those that cannot and why.

A page is served on this machine alone, until Ctrl-C. It starts in the initial state, or at the end
of a counterexample or of a path. The address of the page holds the path, so it can be kept as a
link, and the browser's Back undoes a step.
"""

import argparse
import asyncio
import webbrowser
from typing import Final
from urllib.parse import quote

from pdproto.check.stepping.server import ExploreApp, serve
from pdproto.cli.options import UsageError
from pdproto.cli.starting import SEPARATOR, Start, add_start, start

PORTS_END: Final = 1 << 16
PORT: Final = 8484  # links keep their port from one run to the next


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto explore`."""
    add_start(parser)
    parser.add_argument(
        "--port", metavar="N", type=_port,
        help=f"the port of the page; 0 takes a free one (default: {PORT}, or a free one)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdecimal() else PORTS_END
    if port >= PORTS_END:
        raise argparse.ArgumentTypeError(f"want a port from 0 to {PORTS_END - 1:,}, not {text!r}")
    return port


def run(arguments: argparse.Namespace) -> int:
    """Serve the page; returns the exit status."""
    begun = start(arguments)
    app = ExploreApp(begun.walker, begun.source, list(begun.facts))

    def told(address: str) -> None:
        link = address + _fragment(begun)
        print(f"{begun.walker.system.name}: {link}  (Ctrl-C ends)",  # noqa: T201 - the result
              flush=True)
        if arguments.open:
            webbrowser.open(link)

    ports = (PORT, 0) if arguments.port is None else (arguments.port,)
    for port in ports:
        try:
            asyncio.run(serve(app, port, told))
        except OSError as error:
            failure = error
        else:
            return 0
    raise UsageError(f"cannot listen at port {ports[-1]}: {failure.strerror}")


def _fragment(begun: Start) -> str:
    path = SEPARATOR.join("".join(label.split()) for label in begun.path)
    return f"#{quote(path, safe='();,')}" if path else ""
