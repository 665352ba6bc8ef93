"""Keys of a cluster: where they come from, and where a process does not run without them."""

import logging
from pathlib import Path
from typing import Final

import pytest
import zmq

from pdproto.cli.main import main
from pdproto.node.link import Link
from pdproto.registry.app import RegistryServer
from pdproto.transport.keys import Keys, KeysError, new_secret, of_secret, read, write_secret
from pdproto.transport.nodes import PrefillNode
from pdproto.transport.settings import SettingsError, load
from pdproto.transport.sockets import Authenticator, listening
from tests.node.data_paths import Fabric, SourceDataPath

BEYOND: Final = ["tcp://10.0.0.5:0", "tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:0",
                 "tcp://[fd00::5]:7", "tcp://eth0:7", "tcp://*:*"]


def node(link: Link) -> PrefillNode:
    return PrefillNode("p0", SourceDataPath("p0", Fabric()), link=link)


def test_a_secret_is_written_for_its_owner_only_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_secret(str(file))
    wrote = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_secret(str(file))
    assert file.read_text() == wrote
    assert read(str(file)) == of_secret(wrote) == of_secret(wrote.strip())
    assert read(str(file)) != of_secret(new_secret())


@pytest.mark.parametrize("text", ["", "secret", "ab" * 31, "ab" * 33, "zz" * 32, "AB" * 32])
def test_a_text_that_is_no_secret_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "secret"
    file.write_text(text)
    with pytest.raises(KeysError, match="want 64 hexadecimal digits, as `pdproto node keys FILE`"):
        read(str(file))


def test_a_secret_that_others_may_read_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "secret"
    write_secret(str(file))
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING, "pdproto"):
        read(str(file))
    assert f"chmod 600 {file}" in caplog.text


def test_no_key_is_shown() -> None:
    secret = new_secret()
    keys = of_secret(secret)
    shown = f"{keys!r} {Link(curve=keys.curve)!r}"
    assert keys.curve.secret.decode() not in shown
    settings = load({"PDPROTO_SECRET": secret})
    assert settings.link().curve == keys.curve
    assert secret not in settings.told() + "".join(map(str, settings.rows()))
    assert "secret=(hidden) (PDPROTO_SECRET)" in settings.told()


@pytest.mark.parametrize("bind", BEYOND)
def test_without_keys_a_node_is_for_its_own_host(bind: str) -> None:
    with pytest.raises(PermissionError) as refused:
        node(Link(bind))
    assert "without keys, for anybody: write a secret with `pdproto node keys FILE`" in str(
        refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("link", [
    Link("tcp://*:0", insecure=True), Link("tcp://*:0", curve=of_secret(new_secret()).curve),
    Link("tcp://127.0.0.9:0"), Link("tcp://localhost:0"), Link("tcp://[::1]:0"),
    Link("ipc:///tmp/pdproto-test-keys")])
def test_a_node_listens_with_keys_on_its_own_host_and_where_it_must(link: Link) -> None:
    node(link).close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "a-name"])  # noqa: S104 - refused
def test_without_keys_a_registry_is_for_its_own_host(host: str) -> None:
    with pytest.raises(PermissionError, match=r"the registry would listen on .* without keys"):
        RegistryServer(host)
    RegistryServer(host, insecure=True)
    RegistryServer(host, keys=of_secret(new_secret()))


def test_a_host_without_keys_is_refused_with_the_fix() -> None:
    for given in ({"PDPROTO_HOST": "10.0.0.5"}, {"PDPROTO_HOST": "fd00::5"}):
        with pytest.raises(SettingsError, match=r"PDPROTO_HOST\): .* set PDPROTO_INSECURE=1 if"):
            load(given)
        assert load(given | {"PDPROTO_INSECURE": "1"}).link().insecure
        assert load(given | {"PDPROTO_SECRET": new_secret()}).link().curve is not None


def test_the_address_of_a_server_is_used_only_with_keys() -> None:
    defaults = {"host": "10.0.0.5"}
    assert load({}, defaults=defaults).link() == Link()
    assert "host=127.0.0.1 (there are no keys)" in load({}, defaults=defaults).told()
    for given in ({"PDPROTO_INSECURE": "1"}, {"PDPROTO_SECRET": new_secret()}):
        assert load(given, defaults=defaults).link().bind == "tcp://10.0.0.5:0"


@pytest.mark.parametrize(("given", "told"), [
    ({"PDPROTO_KEYS": "/nowhere/at.all"}, "/nowhere/at.all: No such file or directory"),
    ({"PDPROTO_SECRET": "abc"}, "PDPROTO_SECRET: want 64 hexadecimal digits"),
])
def test_bad_keys_are_refused_and_not_left_out(given: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load(given).link()


def test_one_source_of_keys_is_wanted() -> None:
    with pytest.raises(SettingsError, match="secret is set as well"):
        load({"PDPROTO_SECRET": "a", "PDPROTO_KEYS": "b"})


def test_the_verb_writes_a_file_that_the_settings_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "secret"
    assert main(["node", "keys", str(file)]) == 0
    assert "set PDPROTO_KEYS to its path" in capsys.readouterr().out
    assert load({"PDPROTO_KEYS": str(file)}).load_keys() == read(str(file))
    assert main(["node", "keys", str(file)]) == 2
    assert "is there already, and is not changed: name a new file" in capsys.readouterr().err


def heard(keys: Keys, *, is_authenticated: bool) -> bool:
    """Whether a listening node hears a peer that has its keys. is_authenticated: an authenticator
    runs.
    """
    link = Link(curve=keys.curve)
    with zmq.Context() as context:
        authenticator = Authenticator(context, keys.curve)
        if not is_authenticated:
            authenticator.stop()
        with listening(context, "p0", link) as router, context.socket(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.curve_publickey = dealer.curve_serverkey = keys.curve.public
            dealer.curve_secretkey = keys.curve.secret
            dealer.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
            dealer.send(b"x")
            came = bool(router.poll(10_000 if is_authenticated else 1_000))
        authenticator.stop()
    return came


def test_a_node_hears_no_peer_without_an_authenticator() -> None:
    """ZeroMQ accepts every peer if no authenticator runs, unless an option forbids it."""
    keys = of_secret(new_secret())
    assert heard(keys, is_authenticated=True)
    assert not heard(keys, is_authenticated=False)
