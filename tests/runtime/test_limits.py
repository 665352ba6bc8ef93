"""Each limit that another process controls: what is at it is taken, and what is past it is not."""

import ast
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from examples.process_memory_engine import ProcessMemory
from pdproto.engine.contract import Result
from pdproto.engine.one_sided_sink import OneSidedSink
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.node.prefill.binding import Uses
from pdproto.registry.registry import Registry
from pdproto.registry.wire import Lookup, Rank, RefusedError, Registration, Rooms, Run, read
from pdproto.runtime import limits
from pdproto.runtime.batches import Batch, decode
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.versions import VERSION, fingerprint
from tests.engine.engines import write
from tests.engine.test_peers import dial, hangs_up, opening
from tests.registry.served import prefill

ROOT: Final = Path(__file__).resolve().parents[2]
LIFE: Final = [1, 2, 3]
DONE: Final = ["done", LIFE, [1], b"", b"digest"]


def batch(*frames: Any, name: str = "d0", incarnation: int = 8) -> bytes:
    return msgspec.msgpack.encode(
        [VERSION, fingerprint(Batch, VERSION), name, None, incarnation, 0, list(frames)])


def layout(told: str = "", buffers: int = 0) -> bytes:
    return batch(["introduce", LIFE, ["d"], "e", [b"", told, [1] * buffers]])


# By limit: a batch in which the size or the number that it bounds is this.
BATCHES: Final[dict[str, Callable[[int], bytes]]] = {
    "FRAMES_MAX": lambda n: batch(*[["drained", LIFE]] * n),
    "NAME_MAX": lambda n: batch(name="n" * n),
    "REASON_MAX": lambda n: batch(["failed", LIFE, "r" * n]),
    "ROOM_MAX": lambda n: batch(["drained", [n, 2, 3]]),
    "SINKS_MAX": lambda n: batch(["introduce", LIFE, ["d"] * n, "e"]),
    "EARLIER_LIVES_MAX": lambda n: batch(["introduce", LIFE, ["d"], "e", None, [1] * n]),
    "CHUNKS_MAX": lambda n: batch(["done", LIFE, [1] * n, b"", b""]),
    "PAGES_MAX": lambda n: batch(["done", LIFE, [n], b"", b""]),
    "LEASE_ADDRESS_MAX": lambda n: batch(["publish", LIFE, b"a" * n, 1, ["d"], "e"]),
    "METADATA_MAX": lambda n: batch(["done", LIFE, [1], b"m" * n, b""]),
    "LAYOUT_TOLD_MAX": lambda n: layout(told="t" * n),
    "COMPONENTS_MAX": lambda n: layout(buffers=n),
    "PAYLOAD_MAX": lambda n: batch(["group.request", LIFE, b"p" * n]),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_at_a_limit_is_read_and_one_past_it_is_not(name: str) -> None:
    most = getattr(limits, name)
    decode(BATCHES[name](most))
    with pytest.raises(RemoteProtocolError):
        decode(BATCHES[name](most + 1))


def test_a_batch_of_as_many_bytes_is_read_and_one_of_more_is_not() -> None:
    """The messages in it are each within their limits."""
    def sized(row: int) -> bytes:
        return batch(*[["done", LIFE, [1], b"m" * limits.METADATA_MAX, b""]] * 3,
                     ["done", LIFE, [1], b"m" * row, b""])

    row = limits.BATCH_BYTES_MAX - len(sized(limits.METADATA_MAX)) + limits.METADATA_MAX
    assert len(sized(row)) == limits.BATCH_BYTES_MAX
    decode(sized(row))
    with pytest.raises(RemoteProtocolError, match="is the limit"):
        decode(sized(row + 1))


def registration(**fields: Any) -> tuple[bytes, type[msgspec.Struct]]:
    told = {"attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": "10.0.0.1", "rank_port": 1, **fields}
    return msgspec.json.encode(told), Registration


BODIES: Final[dict[str, Callable[[int], tuple[bytes, type[msgspec.Struct]]]]] = {
    "TOPOLOGY_SIZE_MAX": lambda n: registration(attn_tp_size=n),
    "CAPABILITIES_MAX": lambda n: registration(capabilities=["c"] * n),
    "NAME_MAX": lambda n: registration(name="n" * n),
    "ASKED_ROOMS_MAX": lambda n: (msgspec.json.encode({"bootstrap_rooms": [1] * n}), Rooms),
    "RANKS_MAX": lambda n: (msgspec.json.encode(
        {"sink": "d", "handover": 1, "ranks": [[0, 0, 0, 0]] * n}), Lookup),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_at_a_limit_is_read_and_one_past_it_is_not(name: str) -> None:
    most = getattr(limits, name)
    read(*BODIES[name](most))
    with pytest.raises(RefusedError) as refused:
        read(*BODIES[name](most + 1))
    assert refused.value.status == 400


def test_a_server_has_so_many_ranks_and_no_more() -> None:
    side = 256
    assert side * side == limits.RANKS_MAX
    Registration(attn_tp_size=side, attn_tp_rank=0, pp_size=side, rank_ip="h", rank_port=1).check()
    with pytest.raises(RefusedError, match="65,536 ranks"):
        Registration(attn_tp_size=side, attn_tp_rank=0, pp_size=side + 1, rank_ip="h",
                     rank_port=1).check()


def test_a_layout_is_nested_so_far_and_no_further() -> None:
    """Deeper ones were read, and then could not be compared: an error of the registry."""
    def nested(levels: int) -> Any:
        return [nested(levels - 1)] if levels else 7

    prefill(dsv41_spec_layout=nested(limits.NESTED_MAX)).check()
    with pytest.raises(RefusedError, match="dsv41_spec_layout: over 32 levels"):
        prefill(dsv41_spec_layout={"a": nested(limits.NESTED_MAX)}).check()


def test_goodbyes_of_unknown_runs_are_kept_up_to_the_limit() -> None:
    registry = Registry()
    registry.register(prefill(0, run=1), now=0.0)
    for number in range(2, limits.EARLY_GOODBYES_MAX + 4):
        registry.deregister(Run(0, 0, 1, 0, number))
    server = registry.server
    assert server is not None
    kept = server.early[Rank(0, 0, 1, 0)]
    assert list(kept) == list(range(4, limits.EARLY_GOODBYES_MAX + 4))


def test_rooms_are_counted_up_to_the_limit() -> None:
    uses = Uses(most=4)
    for room in (1, 2, 3):
        assert uses.next(room) == 0
    assert uses.next(1) == 1
    assert uses.next(4) == 0
    assert (uses.next(1), uses.next(2)) == (2, 0)


def test_writes_of_one_source_are_open_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdproto.engine.one_sided_sink.SINK_WRITES_MAX", 3)
    sink = OneSidedSink(ProcessMemory())
    lease = sink.lease("life", "source", 100)
    assert lease is not None
    with suppress(ConnectionError), dial(lease.address.endpoint) as sock:
        for number in (1, 2, 3):
            sock.send(opening(lease, number, 1))
            assert sock.recv(1 << 10)
        assert sink.counts().dropped_peers == 0
        sock.send(opening(lease, 4, 1))
        hangs_up(sock)
    assert sink.counts().dropped_peers == 1
    sink.close()


def test_memory_is_mapped_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdproto.engine.shared_sink.REGIONS_MAX", 2)
    with closing(SharedSink()) as sink, closing(SharedSource()) as source:
        leases = [lease for _ in range(3) if (lease := sink.lease("life", "source", 100))]
        results = [write(source, lease.address, bytes(100)).result for lease in leases]
        assert results == [Result.LANDED, Result.LANDED, Result.REFUSED]
        assert write(source, leases[0].address, bytes(100)).result is Result.LANDED


def test_every_constant_is_in_the_table_with_its_test() -> None:
    names = {name for name in vars(limits) if name.endswith(("_MAX", "_S"))}
    assert names == {each.name for each in limits.LIMITS}
    for each in limits.LIMITS:
        path, _, test = each.test.partition(":")
        defined = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text()))
                   if isinstance(node, ast.FunctionDef)}
        assert not test or test in defined, each.name
