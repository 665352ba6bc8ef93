"""The settings of a node, its engine and its operator's port, in one typed object.

A setting has one name and three forms: `silent_s = 2.0` in a file (TOML), `PDPROTO_SILENT_S=2.0` in
the environment, `--set silent_s=2.0` on a command line. The name of a wait (spec/handoff/timers.py)
begins with `waits.`, such as `waits.no_drain`: `no_drain = 2.0` below `[waits]` in the file,
`PDPROTO_WAITS_NO_DRAIN` in the environment. The command line overrides the environment, which
overrides the file.

Rule: an unknown, malformed or contradictory setting is refused before the node starts. The error
gives the name as it was written, and a correction.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from math import isnan
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pdproto.engine.contract import EngineError
from pdproto.engine.engines import ENGINES, require_page_fence
from pdproto.engine.sink import CAPACITY_BYTES
from pdproto.net.hosts import LOOPBACK, PORT_MAX, address_of, is_loopback, is_wildcard, split
from pdproto.node.faults import FaultsError, parse
from pdproto.node.link import SIGNS_MISSED, Link, require_private, tcp_at
from pdproto.runtime import checked
from pdproto.runtime.limits import NAME_MAX
from pdproto.runtime.trace import StepObserver
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport import setting_values
from pdproto.transport.keys import Keys, KeysError, of_secret, read

PREFIX: Final = "PDPROTO_"
FILE: Final = "PDPROTO_SETTINGS"  # the settings file, in the environment
# Variables with the same prefix that are not settings of a node: they trace SGLang's own managers.
OTHERS: Final = frozenset({FILE, "PDPROTO_PEER_TRACE", "PDPROTO_PEER_BACKEND"})
HIDDEN: Final = "(hidden)"  # shown in place of a secret
SECRETS: Final = frozenset({"secret", "faults_token"})
NO_KEYS: Final = "there are no keys"  # the source of the loopback address in place of the server's
SERVER: Final = "the server's"  # the source of a default that the caller gives
STORE_NAME: Final = re.compile("[0-9A-Za-z_-]{1,64}")
PORTS: Final = 2  # of a rank: of its node and of its engine
TOKEN: Final = re.compile("[0-9A-Za-z_-]{16,}")


class SettingsError(ValueError):
    """A setting is refused. The message is one line with a correction, which can be encoded."""

    def __init__(self, message: str) -> None:
        super().__init__(checked.encodable(message))


@dataclass(frozen=True, slots=True)
class About:
    """The description of a setting. choices: the allowed values; None if any value is allowed."""

    told: str
    choices: Collection[str] | None = None


def _about(default: Any, told: str, choices: Collection[str] | None = None) -> Any:
    return field(default=default, metadata={"about": About(told, choices)})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a node. `load` reads them.

    given: the source of each setting that was set, by name. Raises SettingsError for an impossible
    value.
    """

    engine: str = _about("tcp", "which engine moves the bytes", ENGINES)
    direct: bool = _about(True, "write straight into pages where the engine can fence them")
    staging_bytes: int = _about(CAPACITY_BYTES, "staging memory of a decode node, at most; it is "
                                                "pinned where pages are on a GPU")
    copy_threads: int = _about(1, "threads that copy a large chunk of pages in host memory")
    page_tokens: int = _about(0, "tokens of the parts of pages that are handed over under vLLM and "
                                 "SGLang, where pages (blocks) of prefill and decode differ in "
                                 "size: a number that divides both; 0: whole pages")
    keep_pages: int = _about(0, "pages that prefill keeps under vLLM for further decode requests, "
                                "for `waits.keep`; 0: an eighth of its KV cache")
    host: str = _about("", "the address of this host at which peers call; empty: the server's own")
    port: int = _about(0, "the first port of a server's nodes: each rank has two, for its node and "
                          "for its engine `tcp`; 0: any that are free")
    advertise: str = _about("", "the endpoint that peers are told to call, if it is another")
    sign_of_life_s: float = _about(1.0, "how often a silent node says that it is there")
    silent_s: float = _about(5.0, "how long a peer may say nothing before it is suspected to have "
                                  "ended; shortened to `absent_s`, and to 0.8 of each wait "
                                  "that ends a request of that peer")
    absent_s: float = _about(60.0, "how long hand-overs wait for a peer that says nothing; its "
                                   "process may stand still, and go on")
    grace_s: float = _about(0.5, "how long an ended connection may take to come back")
    switch_s: float = _about(0.0005, "how long a serving engine's thread may keep Python's "
                                     "interpreter while the node's thread waits for it")
    operator: str = _about("", "host:port of the operator's port; empty: none is open")
    registry_operator: str = _about("", "host:port of the operator's port of a registry, which "
                                        "needs no keys; empty: none is open")
    log: str = _about("text", "how the log is written", ("text", "json"))
    faults: str = _about("", "hand-overs that fail on purpose, for tests: probabilities such as "
                             "bootstrap=0.1,transfer=0.02; empty: none do")
    faults_token: str = _about("", "the token to set faults by the operator's port; empty: none")
    otel: str = _about("", "the URL of an OpenTelemetry collector for spans of hand-overs, such as "
                           "http://10.0.0.9:4318; empty: there are none")
    keys: str = _about("", "the file with the keys of this process, as `pdproto node keys` writes "
                           "it")
    secret: str = _about("", "the secret of the cluster itself, in place of a file")
    insecure: bool = _about(False, "listen beyond this host without keys: everybody is trusted")
    store: str = _about("", "the members of the etcd that registries share, as URLs with commas "
                            "between them; empty: the registry is alone")
    store_name: str = _about("default", "the name of the prefill server in the store")
    store_ca: str = _about("", "the file with etcd's certificate authority; empty: the system's")
    store_certificate: str = _about("", "the file with the certificate and the key that etcd "
                                        "demands of its clients")
    waits: Mapping[str, float] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked.kinds(self, _KINDS)
        checked.lengths("waits", self.waits, WAITS)
        for problem in self._problems():
            raise SettingsError(problem)

    def link(self, index: int = 0) -> Link:
        """The link of a node with these settings. index: of its rank in its server. Raises
        SettingsError for bad keys, and where there are too few ports.
        """
        keys = self.load_keys()
        stand = (self.wait(name) for name, wait in WAITS.items() if wait.stands)
        return Link(tcp_at(self.host or LOOPBACK, self._port_of(index)),
                    sign_of_life_s=self.sign_of_life_s, silent_s=self.silent_s,
                    absent_s=self.absent_s, grace_s=self.grace_s,
                    advertise=self.advertise or None,
                    curve=None if keys is None else keys.curve,
                    insecure=self.insecure).suspecting_within(stand)

    def engine_port(self, index: int = 0) -> int:
        """The port of a decode node's engine; 0 for any. index: see `link`."""
        return self._port_of(index) + bool(self.port)

    def _port_of(self, index: int) -> int:
        port = self.port + PORTS * index * bool(self.port)
        if port + PORTS - 1 > PORT_MAX:
            raise SettingsError(self._says("port", str(self.port), f"rank {index} has none: want "
                                           f"{PORT_MAX + 1 - PORTS * (index + 1)} at most"))
        return port

    def named(self, node: str) -> str:
        """The name of a node of this process: with the member whose keys it has, if it has any."""
        keys = self.load_keys()
        return node if keys is None else keys.curve.named(node)

    def spans(self, node: str) -> StepObserver | None:
        """The spans of the node of this name, for its argument `trace`; None if none are wanted.
        Raises SettingsError if the library for them is not installed.
        """
        if not self.otel:
            return None
        try:
            from pdproto.transport.otel import OtelSpans  # noqa: PLC0415 - needs an extra
        except ModuleNotFoundError as error:
            raise SettingsError(self._says(
                "otel", self.otel, f"{error}: pip install 'pdproto[otel]'")) from None
        return OtelSpans(node, self.otel)

    def load_keys(self) -> Keys | None:
        """The keys of this process; None if it has none. Raises SettingsError for bad keys."""
        try:
            if self.secret:
                return of_secret(self.secret, self.given.get("secret", "secret"))
            return read(self.keys) if self.keys else None
        except KeysError as error:
            raise SettingsError(str(error)) from None

    def wait(self, name: str) -> float:
        """The length of a wait in seconds, set or by default."""
        return self.waits.get(name, WAITS[name].seconds)

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Every setting: its name, its value, the source of the value, and its meaning."""
        for name, told in NAMES.items():
            wait = name.removeprefix(WAIT)
            value = self.wait(wait) if name.startswith(WAIT) else getattr(self, name)
            value = HIDDEN if name in SECRETS and value else value
            yield name, written(value), self.given.get(name, "default"), told.told

    def told(self) -> str:
        """One line that lists the settings that were set, with their sources."""
        said = [f"{name}={value} ({source})" for name, value, source, _ in self.rows()
                if source != "default"]
        return f"settings: {', '.join(said)}" if said else "settings: all are the defaults"

    def _problems(self) -> Iterator[str]:
        lengths = [(name, getattr(self, name)) for name, kind in _KINDS.items() if kind is float]
        for name, seconds in (*lengths, *((WAIT + name, self.wait(name)) for name in self.waits)):
            if isnan(seconds) or seconds < 0 or (seconds == 0 and name not in MAY_BE_0):
                yield self._says(name, f"{seconds:g}", "want more than 0 seconds")
        yield from self._problems_of_waits()
        if self.host and (is_wildcard(self.host) or address_of(self.host) is None):
            yield self._says("host", self.host, "want an address of this host that peers can call, "
                                                "such as 10.0.0.5 or fd00::5")
        if self.keys and self.secret:
            yield self._says("keys", self.keys, "secret is set as well: want one of the two")
        try:
            require_private("a node", self.host or LOOPBACK, insecure=self.insecure,
                            keyed=bool(self.keys or self.secret))
        except PermissionError as error:
            yield self._says("host", self.host, str(error))
        if self.direct and "direct" in self.given:
            try:
                require_page_fence(self.engine)
            except EngineError as error:
                yield self._says("direct", "1", f"{error}; or set direct=0")
        yield from self._problems_of_faults()
        yield from self._problems_of_store()
        yield from self._problems_of_otel()
        for name in ("operator", "registry_operator"):
            try:
                split(getattr(self, name) or "localhost:0")
            except ValueError as error:
                told = getattr(self, name)
                yield self._says(name, told, str(error).removeprefix(f"{told!r}: "))

    def _problems_of_waits(self) -> Iterator[str]:
        if self.silent_s <= (least := SIGNS_MISSED * self.sign_of_life_s):
            yield self._says("silent_s", f"{self.silent_s:g}",
                             f"a peer would be suspected before it has missed {SIGNS_MISSED:g} "
                             f"signs of life: want more than {least:g}, or a smaller "
                             f"sign_of_life_s")
        for again, ends in (("no_news", "bootstrap_timeout"), ("no_bytes", "transfer_timeout")):
            ours = any(self.given.get(WAIT + name, SERVER) != SERVER for name in (again, ends))
            if ours and self.wait(again) >= self.wait(ends):
                name = WAIT + (again if again in self.waits else ends)
                yield self._says(name, f"{self.wait(name.removeprefix(WAIT)):g}",
                                 f"no message would ever be repeated: {again} "
                                 f"({self.wait(again):g} s) must be less than {ends} "
                                 f"({self.wait(ends):g} s)")

    def _problems_of_faults(self) -> Iterator[str]:
        try:
            parse(self.faults)
        except FaultsError as error:
            yield self._says("faults", self.faults, str(error))
        if self.faults_token and not TOKEN.fullmatch(self.faults_token):
            yield self._says("faults_token", HIDDEN, "want 16 characters or more of a-z, A-Z, 0-9, "
                                                     "- and _")

    def _problems_of_store(self) -> Iterator[str]:
        for member in self.store.split(",") if self.store else ():
            url = urlsplit(member)
            if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
                yield self._says("store", member, "want the URL of a member of etcd, such as "
                                                  "https://10.0.0.7:2379")
            elif url.scheme == "http" and not is_loopback(url.hostname) and not self.insecure:
                yield self._says("store", member, "everybody on the way could forge addresses: "
                                                  "want https, or insecure=1")
        if not STORE_NAME.fullmatch(self.store_name):
            yield self._says("store_name", self.store_name, "want letters, digits, - and _")

    def _problems_of_otel(self) -> Iterator[str]:
        url = urlsplit(self.otel)
        if self.otel and (url.scheme not in ("http", "https") or not url.hostname):
            yield self._says("otel", self.otel, "want the URL of a collector that takes OTLP over "
                                                "HTTP, such as http://10.0.0.9:4318")

    def _says(self, name: str, value: str, problem: str) -> str:
        source = self.given.get(name)
        told = value if len(value) <= NAME_MAX else f"{value[:NAME_MAX]}..."
        return f"{name}={told}{f' ({source})' if source else ''}: {problem}"


WAIT: Final = "waits."
MAY_BE_0: Final = {WAIT + name for name, wait in WAITS.items() if not wait.seconds}
NAMES: Final[Mapping[str, About]] = {
    **{each.name: each.metadata["about"] for each in fields(Settings) if each.metadata},
    **{WAIT + name: About(f"seconds, after which {wait.leads_to}") for name, wait in WAITS.items()},
}


def written(value: object) -> str:
    """A value as text, as in the environment and on a command line."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)


def variable(name: str) -> str:
    """The name of the setting's environment variable."""
    return PREFIX + name.replace(".", "_").upper()


def load(
    environment: Mapping[str, str], sets: Sequence[str] = (), file: str | None = None,
    defaults: Mapping[str, Any] | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Read the settings of a process.

    environment: of the process. sets: the `name=value` arguments of its command line. file: the
    settings file; default: the one that the environment names, if any. defaults: values by name
    that replace our defaults, for a node in a server. tables: settings that the server's own
    configuration has for pdproto, in the form of the file, by the name of the server's setting;
    they override the environment. Without keys, a node is for its own host: the address of the
    server is not used then, unless `insecure` is set.

    Raises SettingsError.
    """
    values: dict[str, Any] = dict(checked.mapping("defaults", {} if defaults is None else defaults))
    checked.mapping("environment", environment)
    tables = checked.mapping("tables", {} if tables is None else tables)
    checked.strings("sets", sets)
    if file is not None:
        checked.text("file", file, setting_values.PATH_MAX)
    for name in values:
        _known(name, "defaults")
    given = dict.fromkeys(values, SERVER)
    for name, value, source in (
        *_of_file(file or environment.get(FILE)), *_of_environment(environment),
        *(one for at, table in tables.items() for one in _of_table(table, at)), *_of_line(sets)):
        values[name], given[name] = value, source
    is_trusted = values.get("keys") or values.get("secret") or values.get("insecure")
    if given.get("host") == SERVER and not is_loopback(values["host"]) and not is_trusted:
        values["host"], given["host"] = LOOPBACK, NO_KEYS
    waits = {name.removeprefix(WAIT): values.pop(name)
             for name in list(values) if name.startswith(WAIT)}
    return Settings(**values, waits=waits, given=given)


def _of_file(path: str | None) -> Iterator[tuple[str, Any, str]]:
    if path is None:
        return
    try:
        found = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None
    except ValueError as error:
        raise SettingsError(f"{path!r}: no path of a file: {error}") from None
    yield from _of_table(found, path)


def _of_table(table: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any, str]]:
    try:
        table = setting_values.table(table, source)
        waits = setting_values.table(table.get("waits", {}), f"{source}: waits", "a table, [waits]")
    except ValueError as error:
        raise SettingsError(str(error)) from None
    flat = {name: value for name, value in table.items() if name != "waits"}
    for name, value in (flat | {WAIT + name: value for name, value in waits.items()}).items():
        _known(name, source)
        yield name, _typed(name, value, source), source


def _of_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    by_variable = {variable(name): name for name in NAMES}
    for each in sorted(environment):
        if each.startswith(PREFIX) and each not in OTHERS:
            if each not in by_variable:
                _refuse(each, (*by_variable, *OTHERS), "the environment")
            name = by_variable[each]
            yield name, _typed(name, environment[each], each), each


def _of_line(sets: Sequence[str]) -> Iterator[tuple[str, Any, str]]:
    for each in sets:
        name, equals, value = each.partition("=")
        if not equals:
            raise SettingsError(f"--set {each}: want name=value")
        _known(name, "--set")
        yield name, _typed(name, value, "--set"), "--set"


def _known(name: object, source: str) -> None:
    if name not in NAMES:
        _refuse(name if isinstance(name, str) else checked.shown(name), tuple(NAMES), source)


def _refuse(wrote: str, names: Sequence[str], source: str) -> None:
    near = get_close_matches(wrote, names, n=1)
    meant = f"did you mean {near[0]}?" if near else "`pdproto node settings` lists them"
    raise SettingsError(f"{source}: there is no setting {wrote}: {meant}")


def _typed(name: str, value: Any, source: str) -> Any:
    """The value in the type of the setting."""
    kind = float if name.startswith(WAIT) else _KINDS[name]
    try:
        return setting_values.typed(name, value, source, kind, NAMES[name].choices)
    except ValueError as error:
        raise SettingsError(str(error)) from None


_KINDS: Final = {each.name: each.type for each in fields(Settings) if each.metadata}
