"""The settings: three ways to write them, one meaning, and a refusal that says what to write."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.cli.main import main
from pdproto.engine.engines import open_sink
from pdproto.net.hosts import LOOPBACK
from pdproto.node.link import SIGNS_MISSED, Link, place_of
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport.nodes import PrefillNode
from pdproto.transport.settings import NAMES, Settings, SettingsError, load, variable, written
from tests.node.data_paths import Fabric, SourceDataPath

SILENT = "silent_s"


def test_the_defaults_are_those_of_the_code() -> None:
    settings, link = load({}), Link()
    for name in ("sign_of_life_s", "silent_s", "grace_s"):
        assert getattr(settings, name) == getattr(link, name)
    assert {name: settings.wait(name) for name in WAITS} == {
        name: wait.seconds for name, wait in WAITS.items()}
    assert settings.told() == "settings: all are the defaults"


def test_every_wait_is_a_setting_with_its_consequence() -> None:
    for name, wait in WAITS.items():
        assert wait.leads_to in NAMES[f"waits.{name}"].told


def test_each_way_goes_before_the_next(tmp_path: Path) -> None:
    """Command line, environment, file, the server's own, ours."""
    file = tmp_path / "pdproto.toml"
    file.write_text('silent_s = 20\nengine = "shm"\n[waits]\nno_drain = 3\nqueue_timeout = inf\n')
    environment = {"PDPROTO_SETTINGS": str(file)}
    settings = load(environment, defaults={"silent_s": 30.0, "grace_s": 2.0})
    assert (settings.silent_s, settings.grace_s, settings.engine) == (20.0, 2.0, "shm")
    assert (settings.wait("no_drain"), settings.wait("queue_timeout")) == (3.0, inf)
    assert settings.given[SILENT] == str(file)
    environment |= {"PDPROTO_SILENT_S": "10", "PDPROTO_WAITS_NO_DRAIN": "4"}
    assert (load(environment).silent_s, load(environment).wait("no_drain")) == (10.0, 4.0)
    settings = load(environment, ["silent_s=8", "waits.no_drain=5"])
    assert (settings.silent_s, settings.wait("no_drain")) == (8.0, 5.0)
    assert settings.told() == (f"settings: engine=shm ({file}), silent_s=8 (--set), "
                               f"waits.queue_timeout=inf ({file}), waits.no_drain=5 (--set)")


@given(st.sampled_from([name for name in NAMES if name.startswith("waits.")]),
       st.floats(min_value=130.0, max_value=1e6))
def test_any_number_of_seconds_is_read_as_it_was_written(name: str, seconds: float) -> None:
    if name in ("waits.no_news", "waits.no_bytes"):
        return  # they must be less than others
    wrote = repr(seconds)
    for settings in (load({variable(name): wrote}), load({}, [f"{name}={wrote}"])):
        assert settings.wait(name.removeprefix("waits.")) == seconds


@pytest.mark.parametrize(("environment", "sets", "told"), [
    ({"PDPROTO_SILENTS": "1"}, [],
     "the environment: there is no setting PDPROTO_SILENTS: did you mean PDPROTO_SILENT_S?"),
    ({"PDPROTO_WAIT_NO_DRAIN": "1"}, [],
     "the environment: there is no setting PDPROTO_WAIT_NO_DRAIN: did you mean "
     "PDPROTO_WAITS_NO_DRAIN?"),
    ({}, ["colour=red"], "--set: there is no setting colour: `pdproto node settings` lists them"),
    ({}, ["engine"], "--set engine: want name=value"),
    ({}, ["engine=rdma"],
     "engine='rdma' (--set): want one of cuda-ipc, mooncake, nixl, nixl-gpu, shm, tcp"),
    ({"PDPROTO_DIRECT": "maybe"}, [], "direct='maybe' (PDPROTO_DIRECT): want 1 or 0"),
    ({}, ["silent_s=soon"], "silent_s='soon' (--set): want seconds, a number"),
    ({}, ["staging_bytes=0"], "staging_bytes='0' (--set): want a whole number of bytes above 0"),
    ({}, ["page_tokens=-16"], "page_tokens='-16' (--set): want a whole number above 0"),
    ({"PDPROTO_STAGING_BYTES": "4G"}, [],
     "staging_bytes='4G' (PDPROTO_STAGING_BYTES): want a whole number of bytes above 0"),
    ({}, ["waits.no_drain=0"], "waits.no_drain=0 (--set): want more than 0 seconds"),
    ({}, ["waits.no_drain=nan"], "waits.no_drain=nan (--set): want more than 0 seconds"),
    ({}, ["silent_s=2"],
     "silent_s=2 (--set): a peer would be suspected before it has missed 2.5 signs of life: want "
     "more than 2.5, or a smaller sign_of_life_s"),
    ({}, ["waits.no_bytes=200"],
     "waits.no_bytes=200 (--set): no message would ever be repeated: no_bytes (200 s) must be less "
     "than transfer_timeout (120 s)"),
    ({}, ["host=0.0.0.0"],
     "host=0.0.0.0 (--set): want an address of this host that peers can call, such as 10.0.0.5 or "
     "fd00::5"),
    ({}, ["port=nine"], "port='nine' (--set): want a whole number above 0"),
    ({"PDPROTO_ENGINE": "shm", "PDPROTO_DIRECT": "1"}, [],
     "direct=1 (PDPROTO_DIRECT): engine shm declares no page fence, so a writer could not be kept "
     "out of pages: direct writes need tcp; or set direct=0"),
    ({}, ["operator=9400"],
     "operator=9400 (--set): want host:port, and [host]:port with an IPv6 address"),
    ({"PDPROTO_FAULTS": "boot=1"}, [],
     "faults=boot=1 (PDPROTO_FAULTS): there is no fault 'boot': want bootstrap or transfer"),
    ({}, ["faults=transfer=2"],
     "faults=transfer=2 (--set): transfer=2: want a probability from 0 to 1"),
    ({}, ["faults_token=short"],
     "faults_token=(hidden) (--set): want 16 characters or more of a-z, A-Z, 0-9, - and _"),
])
def test_a_wrong_setting_is_refused_with_the_fix(
    environment: dict[str, str], sets: list[str], told: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environment, sets)
    assert str(refused.value) == told


@pytest.mark.parametrize(("text", "told"), [
    ("silent = 3", "there is no setting silent: did you mean silent_s?"),
    ("waits = 3", "waits: want a table, [waits]"), ("engine = 3", "want text"),
    ("silent_s = true", "want seconds, a number"), ("= 3", "not valid TOML"),
    ('keys = "a\\u0000b"', "want text without a zero byte"),  # status 4 of `pdproto registry`
    ("[waits]\nno_drainn = 3", "did you mean waits.no_drain?"),
])
def test_a_file_is_named_in_its_refusal(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "pdproto.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"pdproto\.toml") as refused:
        load({}, file=str(file))
    assert told in str(refused.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(SettingsError, match=r"/nowhere/at\.all: No such file"):
        load({"PDPROTO_SETTINGS": "/nowhere/at.all"})


def test_a_node_is_made_by_them() -> None:
    link = load({}, ["host=::1", "silent_s=7", "absent_s=70", "sign_of_life_s=2", "grace_s=1",
                     "advertise=tcp://10.0.0.9:5"]).link()
    assert link == Link("tcp://[::1]:0", sign_of_life_s=2.0, silent_s=7.0, absent_s=70.0,
                        grace_s=1.0, advertise="tcp://10.0.0.9:5")
    assert load({}).link() == Link()


@given(st.floats(0.1, 200.0), st.floats(0.1, 200.0), st.floats(0.1, 200.0))
def test_a_peer_is_suspected_before_a_clock_of_its_requests_ends(
    bootstrap: float, transfer: float, absent: float
) -> None:
    """Seen red with the given silent_s."""
    link = load({}, defaults={"waits.bootstrap_timeout": bootstrap, "absent_s": absent,
                              "waits.transfer_timeout": transfer}).link()
    assert link.silent_s < min(bootstrap, transfer)
    assert link.silent_s <= absent
    assert link.sign_of_life_s * SIGNS_MISSED < link.silent_s


def test_a_server_may_wait_for_less_than_a_repeat() -> None:
    """SGLang's settings of waits count as they are; its operator is refused nothing by ours."""
    assert load({}, defaults={"waits.bootstrap_timeout": 0.5}).wait("bootstrap_timeout") == 0.5


def test_variables_of_others_are_left_alone() -> None:
    assert load({"PDPROTO_PEER_TRACE": "x", "PATH": "y"}) == Settings()


def test_the_verb_prints_each_with_where_it_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("PDPROTO_ENGINE", "shm")
    assert main(["node", "settings", "--set", "grace_s=2"]) == 0
    told = capsys.readouterr().out
    for name in NAMES:
        assert f" {name} " in told
    line = next(line for line in told.splitlines() if " engine " in line)
    assert line.split()[1:8:2] == ["engine", "PDPROTO_ENGINE", "shm", "PDPROTO_ENGINE"]
    assert main(["node", "settings", "--set", "grace=2"]) == 2
    assert "did you mean grace_s?" in capsys.readouterr().err


@given(st.one_of(st.booleans(), st.floats(0.001, 1e6), st.sampled_from(["tcp", "shm"])))
def test_printed_settings_can_be_given_again(value: object) -> None:
    name = {bool: "direct", float: "grace_s", str: "engine"}[type(value)]
    again = getattr(load({}, [f"{name}={written(value)}"]), name)
    assert again == (float(f"{value:g}") if isinstance(value, float) else value)


def test_no_secret_is_shown() -> None:
    """Neither in the list of settings nor in the line at start-up."""
    settings = load({"PDPROTO_SECRET": "s" * 64, "PDPROTO_FAULTS_TOKEN": "t" * 16,
                     "PDPROTO_OPERATOR": "127.0.0.1:9400"})
    shown = settings.told() + "".join(value for _, value, *_ in settings.rows())
    assert "sss" not in shown
    assert "ttt" not in shown
    assert "faults_token=(hidden) (PDPROTO_FAULTS_TOKEN)" in settings.told()


def test_each_rank_of_a_server_listens_on_two_ports_of_its_own() -> None:
    """Seen red with the number of the rank left out: the second node cannot listen."""
    with ExitStack() as closing:
        first = closing.enter_context(free_ports(4))
        settings = load({"PDPROTO_PORT": str(first)})
        for rank in range(2):
            sink = open_sink("tcp", settings.host or LOOPBACK, port=settings.engine_port(rank))
            closing.callback(sink.close)
            node = PrefillNode(f"p{rank}", SourceDataPath(f"p{rank}", Fabric()),
                               link=settings.link(rank))
            closing.callback(node.close)
            assert place_of(node.endpoint) == (LOOPBACK, first + 2 * rank)
            with socket.create_connection((LOOPBACK, first + 2 * rank + 1)):
                pass  # the engine listens there
    assert (load({}).engine_port(3), load({}).link(3).bind) == (0, f"tcp://{LOOPBACK}:0")


def test_a_rank_without_a_port_is_named() -> None:
    with pytest.raises(SettingsError, match=r"port=65530 .*: rank 3 has none: want 65528 at most"):
        load({"PDPROTO_PORT": "65530"}).link(3)


@contextmanager
def free_ports(count: int) -> Iterator[int]:
    """The first of so many free ports in a row."""
    for first in range(21_000, 30_000, count):
        with ExitStack() as tried:
            try:
                for port in range(first, first + count):
                    tried.enter_context(socket.create_server((LOOPBACK, port)))
            except OSError:
                continue
        yield first
        return
