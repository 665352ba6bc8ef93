"""Hand-overs that fail because the operator has said so: M5.8."""

import random

import pytest

from pdproto.node.faults import BOOTSTRAP, FAULTS, TRANSFER, Faults, FaultsError, parse
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.waiting import until

ENDED = KVPoll.SUCCESS, KVPoll.FAILED


@pytest.mark.parametrize(("text", "wanted"), [
    ("", {BOOTSTRAP: 0.0, TRANSFER: 0.0}), (" ", {BOOTSTRAP: 0.0, TRANSFER: 0.0}),
    ("bootstrap=0.25", {BOOTSTRAP: 0.25, TRANSFER: 0.0}),
    ("transfer = 1 , bootstrap=0", {BOOTSTRAP: 0.0, TRANSFER: 1.0}),
])
def test_faults_are_probabilities_by_name(text: str, wanted: dict[str, float]) -> None:
    assert parse(text) == wanted
    faults = Faults()
    faults.set(text)
    assert parse(str(faults)) == wanted


@pytest.mark.parametrize(("text", "told"), [
    ("bootstrp=0.1", "there is no fault 'bootstrp': want bootstrap or transfer"),
    ("bootstrap=1.5", "bootstrap=1.5: want a probability from 0 to 1"),
    ("bootstrap=-0.1", "bootstrap=-0.1: want a probability from 0 to 1"),
    ("transfer=nan", "transfer=nan: want a probability from 0 to 1"),
    ("transfer=often", "transfer=often: want a probability from 0 to 1"),
    ("transfer=", "transfer=: want a probability from 0 to 1"),
    ("0.1", "'0.1': want name=probability with commas between, such as "
            "bootstrap=0.1,transfer=0.02"),
    ("bootstrap=0.1,", "'': want name=probability with commas between, such as "
                       "bootstrap=0.1,transfer=0.02"),
    ("transfer=0,transfer=1", "transfer is set twice: want it once"),
])
def test_a_wrong_text_is_refused_and_changes_nothing(text: str, told: str) -> None:
    faults = Faults()
    faults.set("bootstrap=0.5,transfer=0.25")
    with pytest.raises(FaultsError) as refused:
        faults.set(text)
    assert str(refused.value) == told
    assert str(faults) == "bootstrap=0.5,transfer=0.25"


def test_a_fault_strikes_with_its_probability() -> None:
    faults, twin = Faults(random.Random(3).random), random.Random(3)  # noqa: S311 - not a secret
    faults.set("transfer=0.3")
    assert [faults.strikes(TRANSFER) for _ in range(500)] == [
        twin.random() < 0.3 for _ in range(500)]
    faults.set("transfer=1")
    assert all(faults.strikes(TRANSFER) for _ in range(500))
    faults.set("")
    assert not any(faults.strikes(name) for name in FAULTS for _ in range(500))


def handed_over(nodes: Cluster, room: int) -> tuple[KVPoll, KVPoll, str]:
    """How one hand-over ends at prefill and at decode, and the reason at decode."""
    (receiver,), (sender,) = published(nodes.receivers(room)), nodes.senders(room)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT, *ENDED))
    if sender.poll() is KVPoll.WAITING_FOR_INPUT:
        sender.send([1, 2, 3])
    until(polls([sender, receiver], *ENDED))
    ended = sender.poll(), receiver.poll(), receiver.failure or ""
    receiver.close()
    return ended


@pytest.mark.parametrize(("side", "fault", "counted"), [
    ("prefill", BOOTSTRAP, "bootstrap_failed_reqs"), ("prefill", TRANSFER, "transfer_failed_reqs"),
    ("decode", BOOTSTRAP, "bootstrap_failed_reqs"), ("decode", TRANSFER, "transfer_failed_reqs"),
])
def test_m5_8_a_node_fails_its_hand_overs_until_the_fault_ends(
    side: str, fault: str, counted: str
) -> None:
    with cluster() as nodes:
        node = nodes.prefills[0] if side == "prefill" else nodes.decodes[0]
        assert handed_over(nodes, 1) == (KVPoll.SUCCESS, KVPoll.SUCCESS, "")
        node.inject(f"{fault}=1")
        for room in (2, 3):
            of_prefill, of_decode, why = handed_over(nodes, room)
            assert (of_prefill, of_decode) == (KVPoll.FAILED, KVPoll.FAILED)
            told = f"a fault injected for a test: {fault}"
            assert why == (f"p0: {told}" if side == "prefill" else told)
        numbers = node.metrics.read()
        assert numbers["injected_faults"] == numbers[counted] == 2
        assert numbers[f'fault_probability{{fault="{fault}"}}'] == 1
        node.inject("")
        assert handed_over(nodes, 4) == (KVPoll.SUCCESS, KVPoll.SUCCESS, "")
        assert node.metrics.read()["injected_faults"] == 2
        nodes.settled()


def test_m5_8_the_share_is_that_of_the_operator() -> None:
    """Of 200 hand-overs 60 are to fail; the bounds are five standard deviations away."""
    with cluster() as nodes:
        nodes.prefills[0].inject("bootstrap=0.3")
        failed = sum(handed_over(nodes, room)[1] is KVPoll.FAILED for room in range(200))
        assert 28 <= failed <= 92
        assert nodes.prefills[0].metrics.read()["injected_faults"] == failed
        nodes.settled()


def test_a_transfer_fault_comes_after_the_write_has_been_posted() -> None:
    """So that the other side has a write to wait for."""
    with cluster(prefill={"at_once": 0}) as nodes:
        nodes.prefills[0].inject("transfer=1")
        (receiver,), (sender,) = published(nodes.receivers(1)), nodes.senders(1)
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(polls([sender, receiver], KVPoll.FAILED))
        assert nodes.prefills[0].metrics.read()["num_prefill_writes"] == 1
        assert not sender.released
        nodes.writing.end()
        until(lambda: sender.released)
        receiver.close()
        nodes.settled()


def test_a_fault_is_drawn_once_for_each_hand_over() -> None:
    """What has its bootstrap is spared by a later fault, also when the sink repeats its address."""
    with cluster(waits={"no_bytes": 0.02}) as nodes:
        (receiver,), (sender,) = published(nodes.receivers(1)), nodes.senders(1)
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        nodes.prefills[0].inject("bootstrap=1")
        before = receiver.metrics.repeats
        until(lambda: receiver.metrics.repeats >= before + 2)
        sender.send([1, 2, 3])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        nodes.settled()
