"""Seals of offers: what a client of decode's HTTP port may have written is not called."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pdproto.transport.keys import new_secret, write_members
from pdproto.transport.settings import Settings
from pdproto.vllm import seals
from pdproto.vllm.loading import LoadingScheduler
from pdproto.vllm.offer import KEY, VERSION, Offer, offer_in
from pdproto.vllm.orders import Orders
from pdproto.vllm.seals import Seals
from tests.vllm.pair import FULL, LAYOUT, SEALS, request

SECRET = new_secret()
OURS, THEIRS = Seals(Settings(secret=SECRET)), Seals(Settings(secret=new_secret()))
HERE, BEYOND = "tcp://127.0.0.1:1", "tcp://10.0.0.9:1"


def offer(endpoint: str = HERE, *ranks: str) -> Offer:
    """Of these ranks, at one endpoint."""
    return Offer(VERSION, "7", 10, 10, [0],
                 [(0, 0, rank, endpoint) for rank in ranks or ("one/p",)],
                 dict(LAYOUT), {"a": "b"})


@pytest.fixture
def members(tmp_path: Path) -> list[Seals]:
    """Two of one cluster, and one of another."""
    one, two = write_members(str(tmp_path / "ours"), ["one", "two"])
    (other,) = write_members(str(tmp_path / "theirs"), ["one"])
    return [Seals(Settings(keys=path)) for path in (one, two, other)]


def test_members_believe_offers_that_a_member_has_sealed(members: list[Seals]) -> None:
    one, two, other = members
    for its in (offer(BEYOND), offer()):
        told = offer_in(one.sealed(its).params())
        assert [seals.doubt(told) for seals in (one, two)] == [None, None]
        assert "no seal of this cluster" in str(other.doubt(told))


@pytest.mark.parametrize("ranks", [["one/p"], ["one"], ["two/p", "one/p"], ["onetwo/p"]])
def test_a_member_signs_for_its_own_ranks_only(members: list[Seals], ranks: list[str]) -> None:
    """Seen red without the comparison: a member has decode load a room of another one."""
    one, two, _ = members
    for half in (one, two):
        told = str(half.doubt(two.sealed(offer(BEYOND, *ranks))))
        foreign = next(rank for rank in ranks if not rank.startswith("two"))
        assert f"name {foreign} of member {foreign.partition('/')[0]}" in told
        assert "member two has signed them" in told
    assert two.doubt(two.sealed(offer(BEYOND, "two", "two/p", "two/q"))) is None


def test_members_believe_no_other_offer(members: list[Seals]) -> None:
    """Seen red with the certificate of another cluster, and without the check of the signature."""
    one, two, other = members
    params = one.sealed(offer()).params()
    for field, value in CHANGES.items():
        changed = {KEY: {**params[KEY], field: value}}
        assert "no seal of this cluster" in str(two.doubt(offer_in(changed)))
    for forged in (offer(), OURS.sealed(offer()), other.sealed(offer())):
        assert "no seal of this cluster" in str(two.doubt(forged))


@pytest.mark.parametrize("seal", ["é" * 64, "\ud800", "====", "A" * 1_024])
def test_any_text_may_stand_for_a_seal(members: list[Seals], seal: str) -> None:
    """Seen red: TypeError, because digests were compared as text. It ends vLLM's scheduler."""
    forged = msgspec.structs.replace(offer(), seal=seal)
    for half in (OURS, members[0]):
        assert "no seal of this cluster" in str(half.doubt(forged))


def test_an_offer_of_this_cluster_is_believed() -> None:
    assert OURS.doubt(offer_in(OURS.sealed(offer(BEYOND)).params())) is None
    assert Seals(Settings(secret=SECRET)).doubt(OURS.sealed(offer())) is None


def test_an_offer_is_believed_whose_numbers_a_proxy_sends_as_floats() -> None:
    sealed = OURS.sealed(offer())
    params = json.loads(json.dumps(sealed.params()), parse_int=float)
    assert isinstance(params[KEY]["ranks"][0][0], float)
    assert offer_in(params) == sealed
    assert OURS.doubt(offer_in(params)) is None
    params[KEY]["tokens"] += 0.5
    with pytest.raises(ValueError, match=r"got `float` - at `\$.tokens`"):
        offer_in(params)


def test_prefill_on_the_loopback_interface_of_another_host_is_named(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red without the comparison: decode calls its own host, and the request fails after
    seconds.
    """
    monkeypatch.setattr(seals, "loopback", lambda: "another host")
    there = Seals(Settings())
    told = there.sealed(offer())
    assert there.doubt(offer_in(told.params())) is None
    assert "loopback interface of another host" in str(SEALS.doubt(offer_in(told.params())))
    assert not there.sealed(offer(BEYOND)).loopback


CHANGES: dict[str, Any] = {
    "room": "8", "tokens": 11, "firsts": [1], "layout": {}, "prompt": {"a": "c"},
    "ranks": [[0, 0, "prefill", "tcp://10.6.6.6:1"]], "seal": "0" * 64,
    "loopback": "another",
}


@pytest.mark.parametrize("field", CHANGES)
def test_an_offer_that_was_changed_is_refused(field: str) -> None:
    params = OURS.sealed(offer()).params()
    params[KEY] = {**params[KEY], field: CHANGES[field]}
    assert "no seal of this cluster" in str(OURS.doubt(offer_in(params)))


@pytest.mark.parametrize("forged", [offer(), THEIRS.sealed(offer()), SEALS.sealed(offer())])
def test_an_offer_without_the_seal_of_this_cluster_is_refused(forged: Offer) -> None:
    assert "no seal of this cluster" in str(OURS.doubt(forged))


@pytest.mark.parametrize("endpoint", [
    BEYOND, "tcp://[fd00::1]:1", "tcp://prefill.example.internal:1", "ipc:///tmp/x", "x"])
def test_without_keys_no_address_beyond_this_host_is_called(endpoint: str) -> None:
    told = str(SEALS.doubt(offer(endpoint)))
    assert endpoint in told
    assert "set PDPROTO_KEYS on both servers" in told
    assert SEALS.doubt(offer("tcp://[::1]:1")) is None
    assert Seals(Settings(insecure=True)).doubt(offer(BEYOND)) is None


@pytest.mark.parametrize(("endpoint", "without_keys"), [
    (HERE, True), ("tcp://127.9.9.9:22", True), ("tcp://[::1]:1", True),
    ("tcp://localhost:1", True), (BEYOND, False), ("tcp://0.0.0.0:1", False),
    ("tcp://[::ffff:10.0.0.9]:1", False), ("tcp://127.0.0.1.example.com:1", False),
    ("tcp://localhost@10.0.0.9:1", False)])
def test_a_client_has_decode_call_its_own_host_only_and_only_without_keys(
    endpoint: str, *, without_keys: bool
) -> None:
    """Seen red with a rule 2 that looks at the first rank only, and without the seal."""
    for believes, called in ((SEALS, without_keys), (OURS, False)):
        half, orders = LoadingScheduler(FULL, LAYOUT, believes), Orders()
        half.arrived(request("r", 10, offer(endpoint).params()), orders)
        half.arrived(request("s", 10, msgspec.structs.replace(offer(), ranks=[
            (0, 0, "one/p", HERE), (0, 1, "one/q", endpoint)]).params()), orders)
        assert [begin.request for begin in orders.begin] == ["r", "s"] * called


def test_decode_calls_no_address_of_a_forged_offer() -> None:
    """Seen red without the seal: the order to introduce the request names the client's address."""
    half, orders = LoadingScheduler(FULL, LAYOUT, OURS), Orders()
    half.arrived(request("r", 10, offer(BEYOND).params()), orders)
    assert orders == Orders()
    assert half.matched(request("r", 10, None), 0) == (10, True)
    half.placed(request("r", 10, None), [[1, 2, 3]], 10, orders)
    [end] = orders.end
    assert end.fails
    assert "no seal of this cluster" in end.reason


def test_a_request_that_decodes_api_has_refused_fails_for_that_reason() -> None:
    """vLLM's scheduler gets a stand-in with one token. Seen red: "... and 1 at decode"."""
    half, orders = LoadingScheduler(FULL, LAYOUT, OURS), Orders()
    sealed = OURS.sealed(offer(BEYOND))
    refused = request("r", 1, sealed.params())
    refused.abort_immediately = True
    half.arrived(refused, orders)
    [begin] = orders.begin
    assert begin.problem == "decode's API has refused the request"
