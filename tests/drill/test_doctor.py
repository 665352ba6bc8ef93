"""Two hosts are compared before they serve, and each misfit is named with the setting to change."""

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pdproto.drill.doctor.findings import Finding, compare, hinders
from pdproto.drill.doctor.host import Host
from pdproto.drill.doctor.visit import PeerError, call, visit
from pdproto.net.hosts import listening
from pdproto.transport.keys import new_secret, write_members
from pdproto.transport.settings import Settings, load

LAYOUT = {"KV cache dtype": "bfloat16", "block size": "16"}
FLAGS = {"KV cache dtype": "--kv-cache-dtype", "block size": "--block-size"}
HOST = replace(Host.of(load({}), None), server="vLLM", release="0.32.0", layout=LAYOUT, flags=FLAGS,
               address="10.0.0.5", machine="a", key="k", known=["k"])
PREFILL = replace(HOST, is_prefill=True)
DECODE = replace(HOST, is_prefill=False, address="10.0.0.6", machine="b")


def failed(findings: list[Finding]) -> dict[str, str]:
    return {one.check: str(one) for one in findings if one.mend}


def test_two_hosts_that_fit_are_told_so() -> None:
    assert failed(compare(PREFILL, DECODE)) == {}


@pytest.mark.parametrize(("changes", "check", "words"), [
    ({"formats": {1: 7}}, "release", "install one release of pdproto"),
    ({"formats": {9: 7}}, "release", "install one release of pdproto"),
    ({"key": "", "known": []}, "keys", "set PDPROTO_KEYS"),
    ({"key": "other"}, "keys", "set PDPROTO_KEYS"),
    ({"known": ["other"]}, "keys", "set PDPROTO_KEYS"),
    ({"address": "127.0.0.1"}, "addresses", "set PDPROTO_HOST at decode"),
    ({"engine": "shm"}, "engine", "set PDPROTO_ENGINE"),
    ({"lacks": "pip install x"}, "engine", "at decode: pip install x"),
    ({"server": "SGLang"}, "server", "one of them on both"),
    ({"is_prefill": True}, "command of decode", "--listen the command of prefill"),
    ({"refused": "context parallelism"}, "command of decode", "context parallelism"),
    ({"layout": {**LAYOUT, "block size": "32"}}, "layout, block size", "set --block-size"),
    ({"layout": {"block size": "16"}}, "layout, KV cache dtype", "set --kv-cache-dtype"),
])
def test_what_does_not_fit_is_named_with_its_mend(
    changes: Mapping[str, Any], check: str, words: str
) -> None:
    found = failed(compare(PREFILL, replace(DECODE, **changes)))
    assert found.keys() == {check}
    assert words in found[check]


def test_hosts_without_keys_listen_for_themselves_only() -> None:
    """The one reason for which the first pair on two hosts fails."""
    bare = {"key": "", "known": [], "address": "127.0.0.1"}
    found = compare(replace(PREFILL, **bare), replace(DECODE, **bare))
    assert failed(found).keys() == {"addresses"}
    assert "set PDPROTO_KEYS" in failed(found)["addresses"]
    assert hinders(found)
    here = compare(replace(PREFILL, **bare), replace(DECODE, **bare, machine="a"))
    assert failed(here) == {}


def test_an_engine_of_one_host_is_refused_between_two() -> None:
    found = failed(compare(replace(PREFILL, engine="shm"), replace(DECODE, engine="shm")))
    assert found.keys() == {"engine"}


@given(st.sampled_from(["formats", "key", "known", "engine", "server", "layout", "address"]),
       st.booleans())
def test_a_misfit_is_seen_whichever_host_has_it(field: str, at_prefill: bool) -> None:
    other = {"formats": {1: 7}, "key": "x", "known": ["x"], "engine": "nixl", "server": "SGLang",
             "layout": {}, "address": "127.0.0.1"}[field]
    there, here = (replace(PREFILL, **{field: other}), DECODE) if at_prefill else (
        PREFILL, replace(DECODE, **{field: other}))
    assert failed(compare(there, here))


def meet(prefill: Settings, decode: Settings) -> list[Finding]:
    """Both ends, each in a thread; returns what both have found."""
    with closing(listening("127.0.0.1", 0)) as listener, ThreadPoolExecutor(2) as pool:
        listener.setblocking(True)
        place = listener.getsockname()[:2]

        def end(settings: Settings, *, is_prefill: bool) -> list[Finding]:
            line = listener.accept()[0] if is_prefill else call(place)
            with closing(line):
                return visit(line, lambda _: (settings, Host.of(settings, None)),
                             prefill=is_prefill)

        ends = [pool.submit(end, one, is_prefill=first)
                for one, first in ((prefill, True), (decode, False))]
        there, here = (one.result(60) for one in ends)
    assert there == here
    return there


def told(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


@pytest.mark.parametrize("engine", ["tcp", "shm"])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_pair_hands_two_pages_over(engine: str, keyed: bool) -> None:
    settings = load({"PDPROTO_SECRET": new_secret()} if keyed else {}, [f"engine={engine}"])
    found = meet(settings, settings)
    assert failed(found) == {}
    assert f"two pages over {engine}" in told(found)


def test_members_of_a_cluster_fit_and_others_do_not(tmp_path: Any) -> None:
    one, two = write_members(str(tmp_path / "a"), ["one", "two"])
    (other,) = write_members(str(tmp_path / "b"), ["one"])
    assert failed(meet(load({"PDPROTO_KEYS": one}), load({"PDPROTO_KEYS": two}))) == {}
    assert failed(meet(load({"PDPROTO_KEYS": other}), load({"PDPROTO_KEYS": two}))).keys() == {
        "keys"}


def test_an_address_of_another_host_is_told_at_both_ends() -> None:
    away = load({"PDPROTO_SECRET": (secret := new_secret()), "PDPROTO_HOST": "203.0.113.7"})
    found = failed(meet(away, load({"PDPROTO_SECRET": secret})))
    assert "node of prefill does not open" in found["hand-over"]
    assert "PDPROTO_HOST" in found["hand-over"]


@pytest.mark.parametrize("end", ["prefill", "decode"])
def test_a_port_that_nobody_answers_is_named(end: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = load({"PDPROTO_ADVERTISE": f"tcp://127.0.0.1:{closed.getsockname()[1]}"})
        found = meet(*((away, load({})) if end == "prefill" else (load({}), away)))
    assert failed(found).keys() == {f"port of {end}"}
    assert "PDPROTO_ADVERTISE" in failed(found)[f"port of {end}"]
    assert "not tried" in told(found)


def test_who_is_no_doctor_is_told_in_one_line() -> None:
    with closing(listening("127.0.0.1", 0)) as listener:
        listener.setblocking(True)
        place = listener.getsockname()[:2]
        line = call(place)
        other = listener.accept()[0]
        other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with closing(line), closing(other), pytest.raises(PeerError, match="one release"):
            visit(line, lambda _: (load({}), Host.of(load({}), None)), prefill=False)
    with pytest.raises(PeerError, match="let TCP to that port through"):
        call(place)
