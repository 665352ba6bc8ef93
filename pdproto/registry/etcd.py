"""A log in etcd (3.4 or later), through the HTTP gateway of its members.

Below the prefix, `log/WRITER/NUMBER` are the entries, in the order of their revisions. `state`
names the parts of the state that the log begins with, `kept/NAME/PART`. Nothing here has a lease:
etcd orders, and measures no time.

Rule: etcd may lose its data, or be restored from a backup, under a registry that runs. So before a
registry watches from the revision that it has read, it asks whether the key that it read last still
has that revision. If not, it loads the log anew.
"""

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import Any, Final
from uuid import uuid4

import aiohttp

from pdproto.registry.log import Item, LogEntry, Start, Trimmed

log = logging.getLogger("pdproto.registry")

FORMAT: Final = 1  # of the entries; registries of two formats do not share a log
ROOT: Final = "/pdproto/"  # of all keys, followed by the format
FIRST_S: Final = 0.5  # for the member that answered last, before the others are asked as well
ATTEMPT_S: Final = 3.0  # for all of them
PAUSE_S: Final = 0.1  # before another attempt
WATCH_S: Final = 2.0  # without anything new; our own beats come more often
PART_BYTES: Final = 1 << 20  # etcd takes 1.5 MiB in a request
LINE_BYTES_MAX: Final = 256 << 20


class StoreError(OSError):
    """A member of etcd gives no answer, or an error."""


class LostError(Exception):
    """The store does not go on from what was read last: it is compacted, or its data are others."""


class EtcdLog:
    """See Log.

    members: the base URLs of the members of one etcd cluster. name: of the prefill server, below
    which all keys are. tls: None for plain HTTP.
    """

    def __init__(self, members: Sequence[str], name: str, tls: SSLContext | None = None) -> None:
        self._members: Final = tuple(member.rstrip("/") for member in members)
        self._prefix: Final = f"{ROOT}{FORMAT}/{name}/"
        self._tls: Final = tls
        self._session: aiohttp.ClientSession | None = None
        self._asked = 0  # the member that answered last
        self._watched = 0
        self._kept_revision = 0  # of `state`; 0 if there is none
        self._last: Mapping[str, Any] | None = None  # the key that was read last

    async def close(self) -> None:
        """See Log."""
        if self._session is not None:
            await self._session.close()

    async def append(self, writer: str, number: int, body: bytes) -> None:
        """See Log."""
        put = _put(f"{self._prefix}log/{writer}/{number:016x}", body)
        while True:
            try:
                await self._ask("/v3/kv/put", put)
            except StoreError as error:
                log.warning("%s", error)
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def follow(self) -> AsyncIterator[Item]:
        """See Log."""
        await self._warn_of_other_formats()
        while True:
            position, items = await self._load()
            for item in items:
                yield item
            try:
                async for item in self._after(position):
                    yield item
            except LostError as error:
                log.warning("%s: the log is read anew", error)

    async def keep(self, kept: bytes, applied: Mapping[str, int]) -> None:
        """See Log."""
        name, known = uuid4().hex, self._kept_revision
        parts = [kept[i:i + PART_BYTES] for i in range(0, len(kept), PART_BYTES)]
        for i, part in enumerate(parts):
            await self._ask("/v3/kv/put", _put(f"{self._prefix}kept/{name}/{i:08x}", part))
        # The states that other registries have kept are older: the transaction removes their parts.
        gone = [(f"log/{writer}/", f"log/{writer}/{number + 1:016x}")
                for writer, number in applied.items()]
        gone += [("kept/", f"kept/{name}/"), (f"kept/{name}0", "kept0")]
        state, told = f"{self._prefix}state", json.dumps({"name": name, "parts": len(parts)})
        answer = await self._ask("/v3/kv/txn", {
            "compare": [{"key": _text(state), "target": "MOD", "result": "EQUAL",
                         "mod_revision": str(known)}],
            "success": [{"request_put": _put(state, told.encode())},
                        *({"request_delete_range": _range(self._prefix + first, self._prefix + end)}
                          for first, end in gone)],
        })
        if not answer.get("succeeded"):
            log.info("another registry has trimmed the log")

    async def _load(self) -> tuple[int, list[Item]]:
        """The state, and the entries after it; with the revision at which they are read."""
        while True:
            try:
                answer = await self._ask("/v3/kv/range", self._all())
            except StoreError as error:
                log.warning("%s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            found = sorted(answer.get("kvs", ()), key=lambda one: int(one["mod_revision"]))
            values = {self._name(one): _bytes(one.get("value", "")) for one in found}
            self._kept_revision, self._last = 0, found[-1] if found else None
            entries = [item for one in found if isinstance(item := self._item(one), LogEntry)]
            told = json.loads(values.get("state", b'{"name": "", "parts": 0}'))
            kept = b"".join(values[f"kept/{told['name']}/{i:08x}"] for i in range(told["parts"]))
            return int(answer["header"]["revision"]), [Start(kept), *entries]

    async def _after(self, position: int) -> AsyncIterator[Item]:
        """What comes after this revision. Raises LostError."""
        while True:
            try:
                await self._require_unchanged(position)
                async for events in self._watch(position + 1):
                    for event in events:
                        if event.get("type", "PUT") == "PUT":
                            self._last = event["kv"]
                            position = int(self._last["mod_revision"])
                            item = self._item(event["kv"])
                            if item is not None:
                                yield item
            except (aiohttp.ClientError, TimeoutError, StoreError) as error:
                log.warning("etcd at %s: %s", self._members[self._watched],
                            str(error) or f"it has shown nothing for {WATCH_S:g} s")
            self._watched = (self._watched + 1) % len(self._members)
            await asyncio.sleep(PAUSE_S)

    async def _warn_of_other_formats(self) -> None:
        """Log a warning if the store has a log of this server that only other registries read."""
        ours, root_end = f"{ROOT}{FORMAT}/", ROOT[:-1] + "0"
        for first, end in ((ROOT, ours), (ours[:-1] + "0", root_end)):
            with suppress(StoreError):
                answer = await self._ask("/v3/kv/range", {
                    **_range(first, end), "limit": "1", "keys_only": True})
                for found in answer.get("kvs", ()):
                    log.warning(
                        "etcd has the key %s, and this registry writes below %s: registries of "
                        "two formats do not list each other's ranks: run one version of pdproto",
                        _bytes(found["key"]).decode(errors="replace"), ours)

    async def _require_unchanged(self, position: int) -> None:
        """Raise LostError unless etcd still has the key that was read last, at its revision."""
        key = _text(self._prefix) if self._last is None else self._last["key"]
        answer = await self._ask("/v3/kv/range", {"key": key})
        revision = int(answer["header"]["revision"])
        if revision < position:
            raise LostError(f"etcd is at revision {revision} and was at {position}")
        [found] = answer.get("kvs", ()) or [{}]
        if self._last is not None and found.get("mod_revision") != self._last["mod_revision"]:
            raise LostError(f"etcd has {self._name(self._last)} of revision "
                            f"{self._last['mod_revision']} no more")

    async def _watch(self, first: int) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """The events from this revision on, as one member shows them."""
        asked = {"create_request": {**self._all(), "start_revision": str(first)}}
        async with self._http().post(
            f"{self._members[self._watched]}/v3/watch", json=asked, ssl=self._tls or True,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=FIRST_S, sock_read=WATCH_S),
        ) as response:
            if response.status != 200:
                raise StoreError(f"watch: {response.status}")
            async for line in _lines(response.content):
                told = json.loads(line)
                if "result" not in told:
                    raise StoreError(f"watch: {line[:200]!r}")
                result = told["result"]
                if int(result.get("compact_revision", 0)):
                    raise LostError("etcd has compacted what follows")
                if result.get("canceled"):
                    raise StoreError(f"watch: {result.get('cancel_reason')}")
                yield result.get("events", ())

    def _item(self, kv: Mapping[str, Any]) -> Item | None:
        """What a key and its value are to a reader; None if nothing."""
        name = self._name(kv)
        if name == "state":
            self._kept_revision = int(kv["mod_revision"])
            return Trimmed()
        kind, _, rest = name.partition("/")
        writer, _, number = rest.partition("/")
        if kind != "log" or not number:
            return None
        try:
            return LogEntry(writer, int(number, 16), _bytes(kv.get("value", "")))
        except ValueError:
            return None

    def _name(self, kv: Mapping[str, Any]) -> str:
        return _bytes(kv["key"]).decode(errors="replace").removeprefix(self._prefix)

    def _all(self) -> dict[str, str]:
        return _range(self._prefix, self._prefix[:-1] + "0")  # "0" comes after "/"

    async def _ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the member that answered last; if it does not answer soon, all. Raises StoreError."""
        with suppress(StoreError):
            return await self._ask_one(self._asked, path, body, FIRST_S)
        asking = {asyncio.create_task(self._ask_one(member, path, body, ATTEMPT_S)): member
                  for member in range(len(self._members))}
        error: BaseException | None = None
        waiting = set(asking)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    error = one.exception()
                    if error is None:
                        self._asked = asking[one]
                        return one.result()
        finally:
            for one in waiting:
                one.cancel()
        raise StoreError(f"no member of etcd answers: {error}")

    async def _ask_one(
        self, member: int, path: str, body: Mapping[str, Any], seconds: float
    ) -> dict[str, Any]:
        url = self._members[member]
        try:
            async with self._http().post(
                url + path, json=body, ssl=self._tls or True,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:
                answer = await response.read()
                if response.status != 200:
                    raise StoreError(f"etcd at {url}: {response.status} {answer[:200]!r}")
                found: dict[str, Any] = json.loads(answer)
                return found
        except TimeoutError:
            raise StoreError(f"etcd at {url}: no answer within {seconds:g} s") from None
        except (aiohttp.ClientError, ValueError) as problem:
            raise StoreError(f"etcd at {url}: {problem}") from None

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, of any length up to LINE_BYTES_MAX. Raises StoreError."""
    rest = b""
    async for some in stream.iter_any():
        *lines, rest = (rest + some).split(b"\n")
        for line in lines:
            if line:
                yield line
        if len(rest) > LINE_BYTES_MAX:
            raise StoreError(f"watch: a line of over {LINE_BYTES_MAX:,} bytes")


def _text(key: str | bytes) -> str:
    return b64encode(key.encode() if isinstance(key, str) else key).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text)


def _put(key: str, value: bytes) -> dict[str, str]:
    return {"key": _text(key), "value": _text(value)}


def _range(first: str, end: str) -> dict[str, str]:
    return {"key": _text(first), "range_end": _text(end)}
