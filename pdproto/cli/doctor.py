"""Find out, before a model is loaded, whether two hosts can hand over to each other.

Start it with --listen on the host of prefill and with --call on the host of decode, each in the
environment of its server. Both print whether release, keys, addresses, engine and ports fit, hand
over two small pages, and name the setting that mends what does not. With the command of each server
after --, they also compare the KV caches that the commands ask for; no weights are read. Exit
status: 0 if all fits, 1 if not.
"""

import argparse
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from typing import Final

from pdproto.cli.numbers import positive
from pdproto.cli.options import UsageError
from pdproto.drill.doctor.host import Host
from pdproto.drill.doctor.visit import PeerError, call, visit
from pdproto.net.hosts import joined, listening, split
from pdproto.transport.described import Described
from pdproto.transport.settings import Settings, load

# The words by which a command starts a server, and the module that reads those behind them.
SERVERS: Final[Mapping[tuple[str, ...], str]] = {
    ("vllm", "serve"): "pdproto.vllm.described",
    ("vllm.entrypoints.openai.api_server",): "pdproto.vllm.described",
    ("sglang.launch_server",): "pdproto.sglang.described",
    ("sglang", "serve"): "pdproto.sglang.described",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto node doctor`."""
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--listen", metavar="HOST:PORT",
                     help="on the host of prefill: wait there for the doctor of decode")
    end.add_argument("--call", metavar="HOST:PORT",
                     help="on the host of decode: where the doctor of prefill listens")
    parser.add_argument("--within", type=positive, default=600.0, metavar="SECONDS",
                        help="with --listen, wait for so long (default: 600)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND",
                        help="the command that starts the server on this host")


def run(arguments: argparse.Namespace) -> int:
    """Print what fits and what does not; returns the exit status."""
    try:
        place = split(arguments.listen or arguments.call)
        server = _described([*arguments.command][arguments.command[:1] == ["--"]:])
        with closing(_waited(place, arguments.within) if arguments.listen else call(place)) as line:
            findings = visit(line, lambda address: _facts(address, server),
                             prefill=arguments.listen is not None)
    except PeerError as error:
        sys.stdout.write(f"FAILS  {error}\n")
        return 1
    except ValueError as error:
        raise UsageError(str(error)) from None
    sys.stdout.writelines(f"{one}\n" for one in findings)
    return int(any(one.mend for one in findings))


def _waited(place: tuple[str, int], seconds: float) -> socket.socket:
    """The connection of the other doctor. Raises UsageError if the address is none of this host."""
    try:
        listener = listening(*place)
    except OSError as error:
        raise UsageError(str(error)) from None
    with closing(listener):
        listener.settimeout(seconds)
        sys.stderr.write(f"waiting at {joined(*listener.getsockname()[:2])}: start `pdproto node "
                         f"doctor --call HOST:{listener.getsockname()[1]}` on the host of decode\n")
        try:
            return listener.accept()[0]
        except TimeoutError:
            raise PeerError(f"nobody called {joined(*place)} within {seconds:g} s: start `pdproto "
                            f"node doctor --call` on the host of decode, and let TCP to this port "
                            f"through") from None


def _facts(address: str, server: Described | None) -> tuple[Settings, Host]:
    """The settings of this host and its facts. address: its own, on the way to the other host."""
    settings = (load(os.environ, defaults={"host": address}) if server is None
                else server.settings)
    return settings, Host.of(settings, server)


def _described(command: Sequence[str]) -> Described | None:
    """The server that a command starts; None without a command."""
    if not command:
        return None
    for words, module in SERVERS.items():
        for place in range(len(command)):
            if tuple(os.path.basename(one) for one in command[place:][:len(words)]) == words:
                read: Callable[[Sequence[str]], Described] = import_module(module).described
                return read(command[place + len(words):])
    known = ", ".join(" ".join(words) for words in SERVERS)
    raise UsageError(f"{' '.join(command)}: want a command with {known}")
