"""`pdproto probe`: 200 is success, and nothing else is."""

from pathlib import Path

import pytest

from pdproto.cli.main import main
from pdproto.registry.app import RegistryServer
from pdproto.transport.keys import new_secret, of_secret
from pdproto.transport.operator_port import OperatorPort
from tests.node.data_paths import cluster


def test_a_node_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """A drain is asked for until it has ended. Without --within one question is all."""
    with cluster() as nodes, OperatorPort(nodes.prefills[0]) as port:
        assert main(["node", "probe", f"http://{port.address}/ready"]) == 0
        (sender,) = nodes.senders(7)
        assert main(["node", "probe", "--post", f"http://{port.address}/drain"]) == 1
        assert main(["node", "probe", f"http://{port.address}/ready"]) == 1
        assert "drain" in capsys.readouterr().out
        sender.abort()
        drain = f"http://{port.address}/drain"
        assert main(["node", "probe", "--post", "--within", "20", drain]) == 0
        assert main(["node", "probe", f"http://{port.address}/nothing"]) == 1
    assert main(["node", "probe", f"http://{port.address}/ready"]) == 1
    assert "no answer" in capsys.readouterr().out


def test_a_registry_is_asked_with_the_keys_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = new_secret()
    with RegistryServer("127.0.0.1", 0, keys=of_secret(secret)) as server:
        url = f"https://{server.address}/metrics"
        assert main(["node", "probe", url]) == 2
        assert "want the keys of the cluster: set PDPROTO_KEYS" in capsys.readouterr().err
        monkeypatch.setenv("PDPROTO_SECRET", new_secret())
        assert main(["node", "probe", url]) == 1
        monkeypatch.setenv("PDPROTO_SECRET", secret)
        assert main(["node", "probe", url]) == 0
        health = url.replace("/metrics", "/health")
        assert main(["node", "probe", health]) == 1  # no rank has registered


@pytest.mark.parametrize("url", ["127.0.0.1:9400/ready", "http://127.0.0.1:9400", "ftp://a/b"])
def test_another_url_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "probe", url]) == 2
    assert f"{url}: want a URL with a path" in capsys.readouterr().err


def test_keys_that_are_none_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PDPROTO_KEYS", str(tmp_path / "none"))
    assert main(["node", "probe", "https://127.0.0.1:1/health"]) == 2
    assert "none: No such file" in capsys.readouterr().err
