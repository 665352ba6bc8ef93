"""A request that decode is asked for more than once, under vLLM's own scheduler.

Every token is compared with those of an engine that computes alone (engine.py says how).
"""

import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from tests.vllm.engine import Engine, Servers
from tests.vllm.test_scheduler import NEW, check, prompt

LONG = {"waits": {"keep": 600.0}}


def engines(closing: ExitStack, folder: Path, *, decodes: int = 1, blocks: int = 256,
            extra: dict[str, Any] | None = None, policy: str = "fail") -> list[Servers]:
    """One prefill server, with each of several decode servers."""
    prefill = Engine(closing, folder, "kv_producer", blocks=blocks,
                     extra=LONG if extra is None else extra)
    return [Servers(prefill, Engine(closing, folder, "kv_consumer", policy=policy))
            for _ in range(decodes)]


def computed(servers: Servers) -> int:
    """How many requests prefill has got."""
    return len(servers.prefill.requests)


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_three_samples_of_one_prefill_are_served(
    closing: ExitStack, folder: Path, steps: int
) -> None:
    """Before prefill's next step, which opens the room, and after. steps: between two of them."""
    (servers,) = engines(closing, folder)
    asked = prompt(1)
    params = servers.compute("r", asked)
    for name in "abc":
        servers.decode.add(name, asked, NEW, params)
        servers.decode.step()
        for _ in range(steps):
            servers.step()
    servers.until(lambda: set("abc") <= set(servers.decode.ends))
    assert computed(servers) == 1
    for name in "abc":
        check(servers, name, asked)


def test_hedged_legs_on_two_servers_are_served(closing: ExitStack, folder: Path) -> None:
    both = engines(closing, folder, decodes=2)
    asked = prompt(2)
    params = both[0].compute("r", asked)
    for servers in both:
        servers.decode.add("leg", asked, NEW, params)
    for servers in both:
        servers.until(lambda servers=servers: "leg" in servers.decode.ends)  # type: ignore[misc]
    assert computed(both[0]) == 1
    for number, servers in enumerate(both):
        servers.decode.answers[f"leg {number}"] = servers.decode.answers["leg"]
        servers.decode.ends[f"leg {number}"] = servers.decode.ends["leg"]
        check(servers, f"leg {number}", asked)


@pytest.mark.parametrize("steps", [0, 1, 2, 20])
def test_another_server_takes_over_from_one_that_has_died(
    closing: ExitStack, folder: Path, steps: int
) -> None:
    """At any point of the first load, or after it."""
    first, second = engines(closing, folder, decodes=2)
    asked = prompt(3)
    params = first.compute("r", asked)
    first.decode.add("leg", asked, 600 if steps else NEW, params)
    for _ in range(steps):
        first.step()
    first.decode.connector.shutdown()
    second.decode.add("leg", asked, NEW, params)
    second.until(lambda: "leg" in second.decode.ends)
    assert second.decode.loaded == len(asked)
    assert computed(second) == 1
    check(second, "leg", asked)


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_a_leg_after_the_keep_has_an_answer_at_once(
    closing: ExitStack, folder: Path, policy: str
) -> None:
    (first, second) = engines(closing, folder, decodes=2, extra={}, policy=policy)
    asked = prompt(4)
    params = first.compute("r", asked)
    first.decode.add("leg", asked, NEW, params)
    first.until(lambda: not first.prefill.scheduler.requests)
    began = time.monotonic()
    second.decode.add("leg", asked, NEW, params)
    second.until(lambda: "leg" in second.decode.ends)
    assert time.monotonic() - began < 10
    if policy == "fail":
        assert (second.decode.ends["leg"], second.decode.answers["leg"]) == ("error", [])
    else:
        check(second, "leg", asked)
    first.until_idle()
    second.decode.settle()


def test_what_is_kept_is_an_eighth_of_the_kv_cache(closing: ExitStack, folder: Path) -> None:
    (servers,) = engines(closing, folder, blocks=65)
    pool = servers.prefill.scheduler.kv_cache_manager.block_pool
    for number in range(12):
        servers.serve(f"r{number}", prompt(number), NEW)  # four blocks each
        servers.until(lambda number=number: f"r{number}" in servers.decode.ends)  # type: ignore[misc]
    servers.until(lambda: len(servers.prefill.scheduler.requests) == 2)
    assert 64 - pool.get_num_free_blocks() == 8
    for number in range(12):
        check(servers, f"r{number}", prompt(number))


def test_the_setting_of_kept_pages_reaches_the_node(closing: ExitStack, folder: Path) -> None:
    (servers,) = engines(closing, folder, extra={**LONG, "keep_pages": 4})
    for name in "ab":
        servers.serve(name, prompt(ord(name)), NEW)
        servers.until(lambda name=name: name in servers.decode.ends)  # type: ignore[misc]
    servers.until(lambda: list(servers.prefill.scheduler.requests) == ["b"])


def test_of_two_prompts_in_one_request_the_other_fails_at_once(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under the policy `fail`, while the first is loaded. Seen red without the comparison of
    prompts in `LoadingScheduler._misfit`.
    """
    waits = {"waits": {"keep": 600.0, "bootstrap_timeout": 600.0}}
    (servers,) = engines(closing, folder, extra=waits)
    asked = {"first": prompt(5), "second": prompt(6)}
    params = servers.compute("r", asked["first"])
    for name, tokens in asked.items():
        servers.decode.add(name, tokens, NEW, params)
    servers.until(lambda: asked.keys() <= servers.decode.ends.keys())
    assert (servers.decode.ends["second"], servers.decode.answers["second"]) == ("error", [])
    assert re.search(r"request second cannot be loaded: prefill has computed another prompt "
                     r"\(tokens: [0-9a-f]{32} at prefill and [0-9a-f]{32} at decode\)", caplog.text)
    check(servers, "first", asked["first"])
