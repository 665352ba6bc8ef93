"""The two processes of the doctor: that of prefill listens, that of decode calls it.

They exchange their facts as lines of JSON, compare them, and then hand over two small pages, by the
nodes and the engine that the servers will have. No secret goes over the line, so it needs no keys;
the nodes keep to theirs.
"""

import socket
from collections.abc import Callable
from contextlib import closing
from math import prod
from time import monotonic, sleep
from typing import Annotated, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from pdproto.drill.doctor.findings import Finding, compare, hinders
from pdproto.drill.doctor.host import LINE_MAX, NAMES_MAX, Host, Line
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import open_sink, open_source
from pdproto.net.hosts import LOOPBACK, joined, own_address
from pdproto.node.handle import ENDED, Handle
from pdproto.node.link import place_of
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.settings import Settings

ANSWER_S: Final = 60.0  # the other process may import a server first
CONNECT_S: Final = 5.0
TRIAL_S: Final = 20.0
POLL_S: Final = 0.005
STAGING_BYTES: Final = 1 << 20
MESSAGE_MAX: Final = 1 << 18
NAME: Final = "doctor"
ROOM: Final = 1
PAGES: Final = (0, 1)
SHAPE: Final = (4, 16, 1, 64)  # of the pool: pages, tokens, heads, size of a head
Facts = Callable[[str], tuple[Settings, Host]]
Pool = NDArray[np.uint16]
AnyMessage = TypeVar("AnyMessage", bound=Struct)


class Called(Struct, frozen=True):
    """The node of an end. failure: why it does not open."""

    name: Line = ""
    endpoint: Line = ""
    failure: Line = ""


class Verdict(Struct, frozen=True):
    """The findings of one end."""

    findings: Annotated[list[Finding], Meta(min_length=1, max_length=NAMES_MAX)]


class PeerError(Exception):
    """The other process does not answer, or is no doctor. The message is one line."""


class Wire:
    """Messages over a connection, a line of JSON for each."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_S)
        self._connection: Final = connection
        self._file: Final = connection.makefile("rb")
        self.peer: Final = joined(*connection.getpeername()[:2])
        self.address: Final = own_address(connection)

    def send(self, message: Struct) -> None:
        """Raises PeerError."""
        try:
            self._connection.sendall(msgspec.json.encode(message) + b"\n")
        except OSError as error:
            raise PeerError(f"{self.peer}: {error}") from None

    def receive(self, kind: type[AnyMessage]) -> AnyMessage:
        """The next message. Raises PeerError."""
        try:
            return msgspec.json.decode(self._file.readline(MESSAGE_MAX), type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            raise PeerError(f"{self.peer} does not answer as a doctor of this release: {error}: "
                            f"start one release of pdproto on both") from None


def call(place: tuple[str, int]) -> socket.socket:
    """Connect to the doctor that listens. Raises PeerError."""
    try:
        return socket.create_connection(place, CONNECT_S)
    except OSError as error:
        raise PeerError(f"{joined(*place)}: {error.strerror or error}: start `pdproto node doctor "
                        f"--listen` there first, and let TCP to that port through") from None


def visit(connection: socket.socket, facts: Facts, *, prefill: bool) -> list[Finding]:
    """Compare this host with the other one, and try a hand-over; returns what both have found.

    facts: those of this host, whose address is given. Raises PeerError and SettingsError.
    """
    wire = Wire(connection)
    settings, ours = facts(wire.address)
    wire.send(ours)
    theirs = wire.receive(Host)
    there, here = (ours, theirs) if prefill else (theirs, ours)
    findings = compare(there, here)
    if hinders(findings) or there.on_device:
        why = "see above" if hinders(findings) else f"{there.engine} wants pages on a GPU"
        return [*findings, Finding("hand-over", f"not tried, {why}", skipped=True)]
    return [*findings, *_try(wire, settings, prefill=prefill)]


def _try(wire: Wire, settings: Settings, *, prefill: bool) -> list[Finding]:
    """Hand over two pages, and return what both ends have found."""
    pool = np.arange(prod(SHAPE), dtype=np.uint16).reshape(SHAPE)
    try:
        node = (_prefill if prefill else _decode)(settings, pool)
    except (EngineError, OSError, ValueError) as error:
        wire.send(Called(failure=str(error)[:LINE_MAX]))
        return _unopened(prefill, str(error), wire.receive(Called).failure)
    with closing(node):
        wire.send(Called(node.name, node.endpoint))
        other = wire.receive(Called)
        if other.failure:
            return _unopened(prefill, "", other.failure)
        reached = _reach("decode" if prefill else "prefill", other.endpoint)
        wire.send(Verdict([reached]))
        there = wire.receive(Verdict).findings
        if reached.mend or there[0].mend:
            found = [*there, reached] if prefill else [reached, *there]
            return [*found, Finding("hand-over", "not tried, see above", skipped=True)]
        if isinstance(node, PrefillNode):
            _send(node)
            return [*there, reached, *wire.receive(Verdict).findings]
        outcome = [_receive(node, other, pool, settings.engine)]
        wire.send(Verdict(outcome))
        return [reached, *there, *outcome]


def _prefill(settings: Settings, pool: Pool) -> PrefillNode:
    return PrefillNode(settings.named(f"{NAME}-prefill"),
                       SourcePages([pool], open_source(settings.engine, _host(settings))),
                       link=settings.link(), waits=settings.waits)


def _decode(settings: Settings, pool: Pool) -> DecodeNode:
    pool[:] = 0
    engine = open_sink(settings.engine, _host(settings), STAGING_BYTES)
    return DecodeNode(settings.named(f"{NAME}-decode"), SinkPages([pool], engine),
                      link=settings.link(), waits=settings.waits)


def _host(settings: Settings) -> str:
    return settings.host or LOOPBACK


def _unopened(prefill: bool, ours: str, theirs: str) -> list[Finding]:
    there, here = (ours, theirs) if prefill else (theirs, ours)
    return [Finding("hand-over", f"the node of {name} does not open: {failure}",
                    f"correct PDPROTO_HOST or PDPROTO_ENGINE at {name}")
            for name, failure in (("prefill", there), ("decode", here)) if failure]


def _reach(name: str, endpoint: str) -> Finding:
    """Whether the node of the other end can be called from here."""
    check = f"port of {name}"
    try:
        with socket.create_connection(place_of(endpoint), CONNECT_S):
            return Finding(check, f"{endpoint} answers")
    except OSError as error:
        return Finding(check, f"{endpoint}: {error.strerror or error}",
                       f"set PDPROTO_HOST (or PDPROTO_ADVERTISE) at {name} to an address that the "
                       f"other host can call, and let its TCP through")


def _send(node: PrefillNode) -> None:
    sender = node.open(ROOM)
    if _until(sender, KVPoll.WAITING_FOR_INPUT) is KVPoll.WAITING_FOR_INPUT:
        sender.send(PAGES)
    _until(sender)


def _receive(node: DecodeNode, prefill: Called, pool: Pool, engine: str) -> Finding:
    began = monotonic()
    receiver = node.open(ROOM, {prefill.name: prefill.endpoint}, pages=PAGES)
    outcome = _until(receiver)
    if outcome is not KVPoll.SUCCESS:
        return Finding("hand-over", f"{receiver.failure or f'no end after {TRIAL_S:g} s'}",
                       f"let all TCP ports between both hosts through: engine {engine} has one of "
                       f"its own; or set PDPROTO_ENGINE to another one on both")
    wanted = np.arange(prod(SHAPE), dtype=np.uint16).reshape(SHAPE)[list(PAGES)]
    if not np.array_equal(pool[list(PAGES)], wanted):
        return Finding("hand-over", "other bytes came than were sent", "report this as a bug")
    return Finding("hand-over", f"two pages over {engine} in {1e3 * (monotonic() - began):.0f} ms")


def _until(handoff: Handle, *also: KVPoll) -> KVPoll:
    """Poll until the hand-over has ended, or is at one of these; for TRIAL_S at most."""
    ends = monotonic() + TRIAL_S
    while (status := handoff.poll()) not in (*ENDED, *also) and monotonic() < ends:
        sleep(POLL_S)
    return status
