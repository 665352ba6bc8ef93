"""The manifests for Kubernetes: valid, and in agreement with the settings and ports of pdproto."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from aiohttp import web

from pdproto.cli import probe
from pdproto.cli import registry as registry_verb
from pdproto.net.hosts import is_wildcard
from pdproto.registry.app import RegistryServer
from pdproto.registry.operator_port import RegistryOperatorPort
from pdproto.transport.operator_port import OperatorPort
from pdproto.transport.settings import PREFIX, load
from tests.node.data_paths import cluster

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
PROBES = "startupProbe", "livenessProbe", "readinessProbe"
VERSION = kubernetes_validate.latest_version()
STANDS_FOR = {"status.podIP": "10.0.0.5", "pdproto": "0" * 64}  # fields and secrets


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


PODS = [(path, each["spec"]["template"]["spec"]) for path in FILES for each in documents(path)
        if each["kind"] in ("Deployment", "StatefulSet")]


def named(of: object) -> str:
    return of.name if isinstance(of, Path) else ""


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container, as Kubernetes fills them in."""
    found: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        value = each.get("value") or STANDS_FOR[
            source["fieldRef"]["fieldPath"] if "fieldRef" in source
            else source["secretKeyRef"]["name"]]
        for name, known in found.items():
            value = value.replace(f"$({name})", known)
        found[each["name"]] = value
    return found


def questions(container: dict[str, Any]) -> Iterator[tuple[str, str, int, str]]:
    """The probes of its supervisor: the occasion, the method, the port and the path."""
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    asked = {name: container[name] for name in PROBES if name in container}
    asked |= container.get("lifecycle", {})
    for name, each in asked.items():
        if "httpGet" in each:
            port = each["httpGet"]["port"]
            yield name, "GET", ports.get(port, port), each["httpGet"]["path"]
        else:
            program, verb, part, *rest = each["exec"]["command"]
            assert (program, verb, part) == ("pdproto", "node", "probe")
            assert "$(" not in " ".join(rest), "Kubernetes fills in no variables here"
            parser = argparse.ArgumentParser()
            probe.configure(parser)
            said = parser.parse_args(rest)
            url = urlsplit(said.url)
            yield name, "POST" if said.post else "GET", url.port or 0, url.path


def routes(app: web.Application) -> set[tuple[str, str]]:
    return {(each.method, each.resource.canonical) for each in app.router.routes()
            if each.resource is not None}


@pytest.mark.parametrize("path", FILES, ids=named)
def test_every_object_fits_the_schema(path: Path) -> None:
    """Strictly: a name that the schema does not have is refused."""
    for told in documents(path):
        kubernetes_validate.validate(told, VERSION, strict=True)


def test_a_misspelt_name_would_be_found() -> None:
    told = documents(FILES[0])[0]
    told["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        kubernetes_validate.validate(told, VERSION, strict=True)


@pytest.mark.parametrize(("path", "pod"), PODS, ids=named)
def test_every_variable_is_a_setting(path: Path, pod: dict[str, Any]) -> None:
    """And its value one that a process takes. Kubernetes must add no variables of its own: those of
    a service pdproto-registry would begin as settings do.
    """
    assert pod["enableServiceLinks"] is False, path
    for container in pod["containers"]:
        given = environment(container)
        settings = load(given)
        assert settings.load_keys() is not None
        assert len(settings.given) == sum(name.startswith(PREFIX) for name in given)


@pytest.mark.parametrize(("path", "pod"), PODS, ids=named)
def test_every_probe_asks_what_is_served_there(path: Path, pod: dict[str, Any]) -> None:
    """At the operator's port, which needs no keys. Liveness is asked where only a restart helps,
    readiness where a router should look.
    """
    with cluster() as nodes:
        operator = routes(OperatorPort(nodes.prefills[0])._app)
    registry = routes(RegistryOperatorPort(RegistryServer())._app)
    for container in pod["containers"]:
        ports = {each["containerPort"] for each in container["ports"]}
        asked = {name: rest for name, *rest in questions(container)}
        if container["name"] == "registry":
            parser = argparse.ArgumentParser()
            registry_verb.configure(parser)
            told = parser.parse_args(container["args"][1:])
            assert container["args"][0] == "registry"
            host, _, port = told.operator.rpartition(":")
            assert is_wildcard(host)
            assert {told.port, int(port)} == ports
            assert {tuple(each) for each in asked.values()} == {("GET", int(port), "/health")}
            assert ("GET", "/health") in registry
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            continue
        settings = load(environment(container))
        port = settings.operator.rpartition(":")[2]
        for place in filter(None, (settings.operator, settings.registry_operator)):
            assert is_wildcard(place.rpartition(":")[0])
            assert int(place.rpartition(":")[2]) in ports
        assert asked == {"startupProbe": ["GET", int(port), "/health"],
                         "livenessProbe": ["GET", int(port), "/health"],
                         "readinessProbe": ["GET", int(port), "/ready"],
                         "preStop": ["POST", int(port), "/drain"]}
        assert {(method, where) for method, _, where in asked.values()} <= operator
        said = [each for each in container["args"] if each.startswith("--")]
        for flag in ("--port", "--disaggregation-bootstrap-port"):
            assert {int(each.partition("=")[2]) for each in said
                    if each.partition("=")[0] == flag} <= ports, f"{path.name}: {flag}"


@pytest.mark.parametrize(("path", "pod"), PODS, ids=named)
def test_a_pod_lives_longer_than_its_drain(path: Path, pod: dict[str, Any]) -> None:
    for container in pod["containers"]:
        command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if command is None:
            assert container["name"] == "registry", f"{path.name} drains nothing"
        else:
            longest = float(command[command.index("--within") + 1])
            assert pod["terminationGracePeriodSeconds"] > longest


@pytest.mark.parametrize("path", FILES, ids=named)
def test_every_service_leads_to_a_port_of_its_pods(path: Path) -> None:
    told = documents(path)
    for service in (each for each in told if each["kind"] == "Service"):
        selector = service["spec"]["selector"]
        pods = [each["spec"]["template"] for each in told if "template" in each.get("spec", {})
                and selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()]
        assert pods, f"{path.name}: no pod is selected by {selector}"
        for pod in pods:
            ports = {each["name"] for container in pod["spec"]["containers"]
                     for each in container["ports"]}
            assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_prometheus_reaches_a_port_of_an_operator(path: Path) -> None:
    """It has no keys: beside the peers of a node, which reach all its ports."""
    told = documents(path)
    for policy in (each["spec"] for each in told if each["kind"] == "NetworkPolicy"):
        own = policy["podSelector"]["matchLabels"]
        for rule in policy["ingress"]:
            callers = [each["podSelector"]["matchLabels"] for each in rule.get("from", ())]
            opened = {each["port"] for each in rule.get("ports", ())}
            if not opened or opened & {9390, 9400}:
                assert callers in ([own], [{"app": "prometheus"}]), f"{path.name}: {rule}"
    guarded = [each["spec"]["podSelector"]["matchLabels"] for each in told
               if each["kind"] == "NetworkPolicy"]
    for pod in (each["spec"]["template"] for each in told if "template" in each.get("spec", {})):
        assert any(labels.items() <= pod["metadata"]["labels"].items() for labels in guarded)


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "compose").glob("*.yaml")), ids=named)
def test_a_pair_of_compose_has_keys_and_a_router_that_leads_to_it(path: Path) -> None:
    """Without keys a node of a container would listen for that container alone."""
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    services, secret = told["services"], told["secrets"]["pdproto"]["file"]
    assert f"pdproto node keys deploy/compose/{secret}" in path.read_text(encoding="utf-8")
    router = services.pop("router")
    assert services.keys() == {"prefill", "decode"} == router["depends_on"].keys()
    for name, service in services.items():
        given = dict(service["environment"])
        assert given.pop("PDPROTO_KEYS") == "/run/secrets/pdproto"
        assert service["secrets"] == ["pdproto"]
        operator = load(given).operator
        assert service["healthcheck"]["test"][-1] == f"http://{operator}/ready"
        flags = dict(each.split("=", 1) for each in service["command"] if "=" in each)
        role = flags.get("--disaggregation-mode") or json.loads(
            flags["--kv-transfer-config"])["kv_role"]
        assert role == {"prefill": "kv_producer", "decode": "kv_consumer"}[name] or role == name
        (asked,) = (each.partition("=")[2] or each for each in router["command"]
                    if f"//{name}:" in each)
        assert asked == f"http://{name}:{flags['--port']}"
    for volume in router.get("volumes", ()):
        assert (path.parent / volume.split(":")[0]).is_file()


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_pod_and_a_container_of_compose_have_the_same_flags(engine: str) -> None:
    """A cell of real servers runs those of SGLang: `compose` in docs/servers.md."""
    of_compose = yaml.safe_load(
        (ROOT / "deploy" / "compose" / f"{engine}.yaml").read_text(encoding="utf-8"))["services"]
    pods = [pod for path, pod in PODS if path.name == f"{engine}.yaml"]
    assert len(pods) == 2
    for name, pod in zip(("prefill", "decode"), pods, strict=True):
        flags, others = ({word for word in words if word.startswith("--")
                          and not word.startswith("--model-path=")}
                         for words in (pod["containers"][0]["args"], of_compose[name]["command"]))
        assert flags == others
