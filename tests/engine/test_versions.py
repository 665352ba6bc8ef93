"""Both ends of a connection write the newest version of the frames that both read."""

import socket
from dataclasses import replace

import pytest

from pdproto.engine import frames
from pdproto.engine.contract import Result
from pdproto.engine.frames import FRAME_BYTES, VERSION, Frame, Kind, challenge, decode, proof
from tests.engine.engines import Engine, Pair, finished, write
from tests.engine.test_peers import dial, grant, pretender


def reads(newest: int, oldest: int) -> Frame:
    """The first frame of a sink that reads these versions."""
    return replace(challenge(bytes(32)), version=newest, oldest=oldest)


def test_a_source_writes_the_newest_version_of_both_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads two versions, as releases do that follow a change."""
    monkeypatch.setattr(frames, "OLDEST", VERSION - 1)
    for newest, oldest, written in (
        (VERSION, VERSION - 1, VERSION), (VERSION + 1, VERSION, VERSION),
        (VERSION - 1, 0, VERSION - 1),
    ):
        source = engine.source()
        landed = replace(Frame(Kind.LANDED, 1), version=written).encode()
        with pretender(engine, [landed], reads(newest, oldest)) as (address, heard):
            source.post(address, 0, [])
            (outcome,) = finished(source)
            source.close()
        assert heard[0][:4] == b"pde%d" % written
        assert "version" not in outcome.reason


def test_a_source_leaves_a_sink_with_which_it_has_no_version_in_common(engine: Engine) -> None:
    for newest, oldest, spoken in (
        (VERSION + 2, VERSION + 1, f"{VERSION + 1} to {VERSION + 2}"),
        (VERSION - 1, 0, f"{VERSION - 1}"),
    ):
        source = engine.source()
        with pretender(engine, [], reads(newest, oldest)) as (address, _):
            outcome = write(source, address, bytes(10))
        assert outcome.result is Result.REFUSED
        assert outcome.reason.endswith(
            f"version: the peer's data port speaks {spoken}, and this one {VERSION}: want releases "
            f"of pdproto that follow one another")
        source.close()


def test_a_sink_answers_in_the_version_of_the_source(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "OLDEST", VERSION - 1)
    lease = grant(pair)
    sock = dial(lease.address.endpoint)
    assert (sock.challenge.version, sock.challenge.oldest) == (VERSION, VERSION - 1)
    plain = Frame(Kind.WRITE, 1, version=VERSION - 1)
    token = lease.address.token
    if sock.family == socket.AF_INET:
        token = proof(plain, token, sock.challenge.token)
    socket.socket.send(sock, replace(plain, token=token).encode())
    answer = sock.recv(FRAME_BYTES)
    assert decode(answer, frozenset({Kind.LANDED, Kind.GRANTED})).version == VERSION - 1
    sock.close()
