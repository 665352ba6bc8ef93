"""The pair of deploy/compose/sglang.yaml as processes of this machine; see checks.py."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from examples.servers.serving import HOST, Server, free_port
from examples.sglang_servers.serving import SglangServer
from tests.servers.kept_pair import SIDES
from tests.servers.load import Through, asks
from tests.servers.stage import POOL, Layout, Stage
from tests.servers.suite import Finding

COMPOSE: Final = Path("deploy/compose/sglang.yaml")
ONLY_HERE: Final = (*POOL, "--disaggregation-decode-retraction-backup", "cpu_tensor")


def deployed(stage: Stage, layout: Layout) -> Finding:
    """Its commands, environment, keys and health checks, with addresses of this machine in place
    of those of its containers. SGLang warms up, as it does there.
    """
    stage.end()
    services, secret = services_of(COMPOSE), new_secret(stage.model(layout.model).parent)
    names = {"8998": str(free_port())}
    pair = [_begin(stage, layout, name, services[name], names, secret)
            for name in SIDES]
    for server in pair:
        stage.wait_for(server)
    for server, name in zip(pair, SIDES, strict=True):
        probe(services[name], server.operator)
    router = _route(stage, services["router"]["command"], names, pair)
    try:
        router.wait_healthy()
        wanted = asks(8)
        reference = stage.reference(layout.model, wanted)
        found, _ = reference.check(Through(router.url), wanted, in_flight=4, seconds=60.0)
    finally:
        stage.servers.end(router, *pair)
    return Finding(len(wanted), found.equal, "with keys, health checks and warm-up")


def services_of(compose: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(compose.read_text(encoding="utf-8"))["services"]
    return found


def new_secret(folder: Path) -> Path:
    """The keys of a cluster, made as the compose file says."""
    secret = folder / "cluster.secret"
    secret.unlink(missing_ok=True)
    _pdproto("node", "keys", str(secret))
    return secret


def probe(service: Mapping[str, Any], operator: int | None) -> None:
    """The service's health check, of the operator's port here. Raises AssertionError."""
    words = service["healthcheck"]["test"]
    assert words[:2] == ["CMD", "pdproto"]
    _pdproto(*(re.sub(r":9400\b", f":{operator}", word) for word in words[2:]))


def environment_of(service: Mapping[str, Any], secret: Path, operator: int) -> dict[str, str]:
    """The service's, with the keys and the operator's port of this machine."""
    given = {**service["environment"], "PDPROTO_KEYS": str(secret),
             "PDPROTO_OPERATOR": f"{HOST}:{operator}"}
    assert given.keys() == service["environment"].keys()
    return given


def _pdproto(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pdproto", *words], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"pdproto {' '.join(words)}: {done.stdout[-400:]}"


def _begin(stage: Stage, layout: Layout, name: str, service: Mapping[str, Any],
           names: dict[str, str], secret: Path) -> SglangServer:
    module, *argv = _module(service["command"])
    port, operator = free_port(), free_port()
    names[f"http://{name}:30000"] = f"http://{HOST}:{port}"
    here = {**names, "30000": str(port)}
    told = [re.sub(r"(?<==).*", lambda value: here.get(value[0], value[0]), word) for word in argv]
    told = [f"--model-path={stage.model(layout.model)}" if "${MODEL" in word else word
            for word in told]
    flags = [flag for flag in stage.servers.flags if flag != "--skip-server-warmup"]
    given = environment_of(service, secret, operator)
    return stage.servers.run(module, SglangServer(
        f"deployed-{name}", 0, port, stage.servers.folder / f"deployed-{name}.log",
        [*told, *flags, *ONLY_HERE], operator=operator), stage.environment(layout) | given)


def _route(stage: Stage, command: list[str], names: Mapping[str, str],
           pair: list[SglangServer]) -> Server:
    module, *argv = _module(command)
    port = free_port()
    told = [names.get(word, re.sub("^--port=8000$", f"--port={port}", word)) for word in argv]
    assert all(server.url in told for server in pair), told
    return stage.servers.run(module, Server(
        "deployed-router", 0, port, stage.servers.folder / "deployed-router.log",
        [*told, f"--prometheus-port={free_port()}"], health="/readiness"))


def _module(command: list[str]) -> list[str]:
    """The module that Python runs, and its arguments."""
    assert command[:2] == ["python3", "-m"], command
    return command[2:]
