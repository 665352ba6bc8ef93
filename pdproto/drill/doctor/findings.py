"""What does not fit between the host of prefill and that of decode, with the setting that mends it.

Rule: a finding is made of the facts of both hosts alone, so both print the same.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pdproto.drill.doctor.host import Host
from pdproto.net.hosts import is_loopback

KEYS_MEND: Final = ("write them once with `pdproto node keys cluster.secret`, copy the file to "
                    "every host, and set PDPROTO_KEYS to its path on both")
OWN_HOST: Final = ("cuda-ipc", "shm")  # engines whose two ends are on one host


class Finding(Struct, frozen=True):
    """One check. mend: what to change; empty if it fits. skipped: nothing was checked."""

    check: str
    told: str
    mend: str = ""
    skipped: bool = False

    def __str__(self) -> str:
        verdict = "FAILS" if self.mend else "?" if self.skipped else "fits"
        return f"{verdict:<7}{self.check}: {self.told}{f': {self.mend}' if self.mend else ''}"


def compare(prefill: Host, decode: Host) -> list[Finding]:
    """A finding for each thing that both hosts must have in common."""
    return [_release(prefill, decode), _keys(prefill, decode), _addresses(prefill, decode),
            _engine(prefill, decode), *_servers(prefill, decode)]


def hinders(findings: list[Finding]) -> bool:
    """Whether no hand-over can be tried."""
    return any(one.mend and one.check in ("release", "keys", "addresses", "engine")
               for one in findings)


def _both(there: object, here: object) -> str:
    return f"{there} at prefill, {here} at decode"


def _release(prefill: Host, decode: Host) -> Finding:
    common = prefill.formats.keys() & decode.formats.keys()
    told = _both(f"pdproto {prefill.pdproto}", decode.pdproto)
    spoken = _both(*(f"wire format {_span(one)}" for one in (prefill, decode)))
    if not common or prefill.formats[max(common)] != decode.formats[max(common)]:
        return Finding("release", f"{told}; {spoken}", "install one release of pdproto on both")
    return Finding("release", f"{told}; both speak wire format {max(common)} "
                              f"({prefill.formats[max(common)]:08x})")


def _span(host: Host) -> str:
    return ", ".join(f"{version} ({mark:08x})" for version, mark in sorted(host.formats.items()))


def _keys(prefill: Host, decode: Host) -> Finding:
    if not prefill.key and not decode.key:
        return Finding("keys", "neither host has any")
    if not prefill.key or not decode.key:
        return Finding("keys", f"only {'prefill' if prefill.key else 'decode'} has some", KEYS_MEND)
    if prefill.key not in decode.known or decode.key not in prefill.known:
        return Finding("keys", _both(f"public key {prefill.key}", decode.key)
                       + ", and not of one cluster", KEYS_MEND)
    return Finding("keys", "both are of one cluster")


def _addresses(prefill: Host, decode: Host) -> Finding:
    told = _both(f"nodes listen on {prefill.address}", decode.address)
    hosts = (("prefill", prefill), ("decode", decode))
    local = [name for name, host in hosts if is_loopback(host.address)]
    if not local or prefill.machine == decode.machine:
        return Finding("addresses", told)
    keyless = not all(host.key for _, host in hosts)
    return Finding(
        "addresses", f"{told}: {' and '.join(local)} cannot be called from another host",
        KEYS_MEND if keyless else
        f"set PDPROTO_HOST at {' and at '.join(local)} to an address that the other can call")


def _engine(prefill: Host, decode: Host) -> Finding:
    told = _both(prefill.engine, decode.engine)
    if prefill.engine != decode.engine:
        return Finding("engine", told, "set PDPROTO_ENGINE to one engine on both")
    for name, host in (("prefill", prefill), ("decode", decode)):
        if host.lacks:
            return Finding("engine", f"at {name}: {host.lacks}",
                           f"install it at {name}, or set PDPROTO_ENGINE=tcp on both")
    if prefill.engine in OWN_HOST and prefill.machine != decode.machine:
        return Finding("engine", f"{prefill.engine} reaches no other host",
                       "set PDPROTO_ENGINE=tcp, or an engine with RDMA, on both")
    return Finding("engine", told)


def _servers(prefill: Host, decode: Host) -> Iterator[Finding]:
    for name, host, wanted in (("prefill", prefill, True), ("decode", decode, False)):
        if host.refused:
            yield Finding(f"command of {name}", host.refused, "change the command as it says")
        if host.is_prefill is not None and host.is_prefill is not wanted:
            yield Finding(f"command of {name}", f"it is that of "
                          f"{'prefill' if host.is_prefill else 'decode'}",
                          "give --listen the command of prefill, and --call that of decode")
    if not prefill.server or not decode.server:
        yield Finding("layout", "not compared: add the command of the server after -- on both",
                      skipped=True)
        return
    told = _both(f"{prefill.server} {prefill.release}", f"{decode.server} {decode.release}")
    if prefill.server != decode.server:
        yield Finding("server", told, "serve with one of them on both: their pages differ in order")
        return
    yield Finding("server", told)
    differences = [_difference(name, prefill, decode)
                   for name in sorted(prefill.layout.keys() | decode.layout.keys())
                   if prefill.layout.get(name) != decode.layout.get(name)]
    yield from differences or [Finding("layout", ", ".join(
        f"{name} {value}" for name, value in sorted(prefill.layout.items())))]


def _difference(name: str, prefill: Host, decode: Host) -> Finding:
    flags = prefill.flags.get(name) or decode.flags.get(name) or "the same command"
    return Finding(f"layout, {name}", _both(prefill.layout.get(name, "none"),
                                            decode.layout.get(name, "none")),
                   f"set {flags} to one value on both")
