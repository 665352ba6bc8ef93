"""Serve the registry: where prefill ranks register, and decode finds them.

It runs until it is interrupted. Exit status: 0 after an interrupt, 2 if the address is not free.
"""

import argparse
import os
import signal
import ssl
import threading
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

from pdproto.cli.numbers import port, positive
from pdproto.cli.options import UsageError, check_folder
from pdproto.registry.app import RegistryServer
from pdproto.registry.etcd import EtcdLog
from pdproto.registry.operator_port import serve_registry_operator
from pdproto.registry.rooms import Limits
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff import dp_rank, registry
from pdproto.transport.keys import Keys
from pdproto.transport.settings import Settings, SettingsError, load

PORT = 8998  # SGLang's bootstrap port


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto registry`."""
    usual = Limits()
    parser.add_argument("--host", default="127.0.0.1",
                        help="address to listen on: 0.0.0.0 for every IPv4 address of this host, "
                             ":: for the IPv6 ones too (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=PORT, metavar="N",
                        help=f"port to listen on; 0 takes a free one (default: {PORT})")
    parser.add_argument("--silent", type=positive, default=usual.silent_s, metavar="SECONDS",
                        help="remove a rank after so many seconds without a sign of life "
                             f"(default: {usual.silent_s:g})")
    parser.add_argument("--keep-rooms", type=positive, default=usual.room_s, metavar="SECONDS",
                        help="remove a room after so many seconds if no rank retires it "
                             f"(default: {usual.room_s:g})")
    parser.add_argument("--keys", metavar="FILE",
                        help="the keys of the cluster, as `pdproto node keys` writes them: only "
                             "who has them may speak (default: PDPROTO_KEYS)")
    parser.add_argument("--insecure", action="store_true",
                        help="listen beyond this host without keys: everybody who can reach the "
                             "port is trusted")
    parser.add_argument("--store", metavar="URLS",
                        help="share the registrations with other registries in this etcd: the URLs "
                             "of its members, with commas between them (default: PDPROTO_STORE)")
    parser.add_argument("--operator", metavar="HOST:PORT",
                        help="serve /metrics, /health and /ready there to those who have no keys, "
                             "such as Prometheus (default: PDPROTO_REGISTRY_OPERATOR)")
    parser.add_argument("--trace", metavar="FOLDER",
                        help="write the rows that fire, one file for each of the two systems")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit status."""
    check_folder(arguments.trace)
    settings, keys = _trust(arguments)
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    limits = Limits(silent_s=arguments.silent, room_s=arguments.keep_rooms,
                    store_silent_s=settings.wait("store_silent"))
    if settings.store and limits.silent_s <= limits.store_silent_s:
        raise UsageError(f"--silent {limits.silent_s:g}: a registry whose store is late would list "
                         f"ranks that others have removed: want more than waits.store_silent "
                         f"({limits.store_silent_s:g})")
    with ExitStack() as opened:
        traces = {} if arguments.trace is None else {
            name: SharedTrace("registry", opened.enter_context(_file(arguments.trace, name)))
            for name in (registry.SYSTEM.name, dp_rank.SYSTEM.name)}
        server = opened.enter_context(
            RegistryServer(arguments.host, arguments.port, limits, traces, keys=keys,
                           insecure=settings.insecure, store=_store(settings)))
        operator = serve_registry_operator(server, settings)
        if operator is not None:
            opened.callback(operator.stop)
        scheme = "http" if keys is None else "https"
        print(f"registry at {scheme}://{server.address}", flush=True)  # noqa: T201 - the result
        ending.wait()
    return 0


def _trust(arguments: argparse.Namespace) -> tuple[Settings, Keys | None]:
    """The settings and the keys of the registry. Raises UsageError for bad ones."""
    sets = [] if arguments.keys is None else [f"keys={arguments.keys}"]
    sets += ["insecure=1"] if arguments.insecure else []
    sets += [] if arguments.store is None else [f"store={arguments.store}"]
    sets += [] if arguments.operator is None else [f"registry_operator={arguments.operator}"]
    try:
        settings = load(os.environ, sets)
        return settings, settings.load_keys()
    except SettingsError as error:
        raise UsageError(str(error)) from None


def _store(settings: Settings) -> EtcdLog | None:
    """The store of the settings. Raises UsageError for files that are no certificates."""
    if not settings.store:
        return None
    try:
        tls = ssl.create_default_context(cafile=settings.store_ca or None)
        if settings.store_certificate:
            tls.load_cert_chain(settings.store_certificate)
    except OSError as error:
        raise UsageError(f"store_ca={settings.store_ca}, store_certificate="
                         f"{settings.store_certificate}: {error}") from None
    return EtcdLog(settings.store.split(","), settings.store_name, tls)


def _file(folder: str, name: str) -> FileIO:
    """An unbuffered file for a trace, so that no line is lost when the registry is stopped."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return FileIO(f"{folder}/{name}.jsonl", "ab")
