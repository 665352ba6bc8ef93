"""The facts of a host that the other host's must fit. No secret is among them."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, Self

from msgspec import Meta, Struct

from pdproto import __version__
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import ENGINES, require
from pdproto.net.hosts import LOOPBACK
from pdproto.runtime.batches import Batch
from pdproto.runtime.versions import OLDEST, VERSION, fingerprint
from pdproto.transport.described import Described
from pdproto.transport.keys import Keys
from pdproto.transport.settings import Settings

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")  # differs between hosts
DIGITS: Final = 16  # of a digest of a public key
LINE_MAX: Final = 1_000
NAMES_MAX: Final = 64
Line = Annotated[str, Meta(max_length=LINE_MAX)]
Lines = Annotated[dict[Line, Line], Meta(max_length=NAMES_MAX)]


class Host(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of a host.

    formats: the fingerprint of each version of the wire format. machine: of which host the
    processes are. address: where nodes listen. key: a digest of this process's public key, empty
    without keys; known: of those that may call it. engine: the one that moves bytes. lacks: why it
    cannot be opened. server, release, role, layout, flags, refused: see Described; empty if no
    command was given.
    """

    pdproto: Line
    formats: Annotated[dict[int, int], Meta(max_length=NAMES_MAX)]
    machine: Line
    address: Line
    key: Line
    known: Annotated[list[Line], Meta(max_length=LINE_MAX)]
    engine: Line
    lacks: Line
    on_device: bool
    page_tokens: int
    server: Line = ""
    release: Line = ""
    is_prefill: bool | None = None
    layout: Lines = {}
    flags: Lines = {}
    refused: Line = ""

    @classmethod
    def of(cls, settings: Settings, server: Described | None) -> Self:
        """The facts of this host. Raises SettingsError for bad keys."""
        keys = settings.load_keys()
        told: Mapping[str, object] = {} if server is None else {
            "server": server.engine, "release": server.release, "is_prefill": server.is_prefill,
            "layout": dict(server.layout), "flags": dict(server.flags),
            "refused": server.refused[:LINE_MAX]}
        return cls(
            pdproto=__version__,
            formats={each: fingerprint(Batch, each) for each in range(OLDEST, VERSION + 1)},
            machine=BOOT.read_text().strip(), address=settings.host or LOOPBACK,
            key="" if keys is None else _digest(keys.curve.public), known=_known(keys),
            engine=settings.engine, lacks=_lacks(settings.engine),
            on_device=ENGINES[settings.engine].on_device, page_tokens=settings.page_tokens,
            **told)  # type: ignore[arg-type]  # by name


def _known(keys: Keys | None) -> list[str]:
    return [] if keys is None else sorted(map(_digest, keys.curve.known))


def _digest(public: bytes) -> str:
    return sha256(public).hexdigest()[:DIGITS]


def _lacks(engine: str) -> str:
    try:
        require(engine)
    except EngineError as error:
        return str(error)[:LINE_MAX]
    return ""
