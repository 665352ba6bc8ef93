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
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    secret = stage.model(layout.model).parent / "cluster.secret"
    secret.unlink(missing_ok=True)
    _pdproto("node", "keys", str(secret))
    names = {"8998": str(free_port())}
    pair = [_begin(stage, layout, name, services[name], names, secret)
            for name in ("prefill", "decode")]
    for server in pair:
        stage.wait_for(server)
    for server, name in zip(pair, ("prefill", "decode"), strict=True):
        probe = services[name]["healthcheck"]["test"]
        assert probe[:2] == ["CMD", "pdproto"]
        _pdproto(*(re.sub(r":9400\b", f":{server.operator}", word) for word in probe[2:]))
    router = _route(stage, services["router"]["command"], names, pair)
    try:
        router.wait_healthy()
        wanted = asks(8)
        reference = stage.reference(layout.model, wanted)
        found, _ = reference.check(Through(router.url), wanted, in_flight=4, seconds=60.0)
    finally:
        stage.servers.end(router, *pair)
    return Finding(len(wanted), found.equal, "with keys, health checks and warm-up")


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
    given = {**service["environment"], "PDPROTO_KEYS": str(secret),
             "PDPROTO_OPERATOR": f"{HOST}:{operator}"}
    assert given.keys() == service["environment"].keys()
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
