"""The pair of deploy/compose/vllm.yaml as processes of this machine; see checks.py."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from examples.servers.serving import HOST, Server, free_port
from examples.vllm_servers.serving import VllmServer, gauge
from tests.servers.deploy_checks import environment_of, new_secret, probe, services_of
from tests.servers.kept_pair import SIDES
from tests.servers.suite import Finding
from tests.vllm_servers.cells import DEFECT, Layout
from tests.vllm_servers.checks import LOADED_TOKENS, MANY
from tests.vllm_servers.stage import Completions, Stage

COMPOSE: Final = Path("deploy/compose/vllm.yaml")
SERVED: Final = ["vllm", "serve"]
WANTED: Final = [ask for number, ask in enumerate(MANY[:12]) if number % 4]  # share no prefix


def deployed(stage: Stage, layout: Layout) -> Finding:
    """Its commands, environment, keys and health checks, with addresses of this machine in place
    of those of its containers. Decode loads each token of each prompt.
    """
    stage.end()
    services, secret = services_of(COMPOSE), new_secret(stage.model(layout.model).parent)
    names = dict[str, str]()
    pair = {name: _begin(stage, layout, name, services[name], names, secret)
            for name in SIDES}
    command = services["router"]["command"]
    assert command[:2] == ["python3", "/proxy.py"], command
    router = Server("deployed-router", 0, port := free_port(),
                    stage.servers.folder / "deployed-router.log",
                    [_here(word, names, port) for word in command[2:]])
    try:
        for name, server in pair.items():
            stage.wait_for(server)
            probe(services[name], _operator(server))
        stage.wait_for(stage.servers.run("proxy", router))
        reference = stage.reference(WANTED)
        found, _ = reference.check(Completions(router.url), WANTED, in_flight=4, seconds=60.0)
        loaded, tokens = gauge(pair["decode"], LOADED_TOKENS), sum(len(a.prompt) for a in WANTED)
        assert loaded == tokens, f"decode has loaded {loaded:.0f} of {tokens} tokens"
    finally:
        stage.servers.end(router, *pair.values())
    return Finding(len(WANTED), found.equal, "with keys and health checks")


def _begin(stage: Stage, layout: Layout, name: str, service: Mapping[str, Any],
           names: dict[str, str], secret: Path) -> Server:
    command, port = service["command"], free_port()
    assert command[:2] == SERVED, command
    names[f"http://{name}:8000"] = f"http://{HOST}:{port}"
    server = VllmServer(f"deployed-{name}", 0, port,
                        stage.servers.folder / f"deployed-{name}.log",
                        ["--model", str(stage.model(layout.model)), *stage.servers.flags,
                         *(_here(word, names, port) for word in command[3:])])
    given = environment_of(service, secret, _operator(server))
    return stage.servers.run("vllm", server, given | {DEFECT: stage.defect or ""})


def _operator(server: Server) -> int:
    return server.port + 10


def _here(word: str, names: Mapping[str, str], port: int) -> str:
    """A word of a command as it is here. The connector comes by the module that has defects."""
    option, _, value = word.partition("=")
    if option == "--kv-transfer-config":
        config = {**json.loads(value), "kv_connector_module_path": "tests.vllm_servers.defective"}
        return f"{option}={json.dumps(config)}"
    return f"{option}={names.get(value, re.sub('^8000$', str(port), value))}"
