"""What the cell of two LoRA adapters asserts; see checks.py."""

from itertools import permutations

from tests.servers.suite import Finding, UntestedError
from tests.vllm_servers.cells import Layout
from tests.vllm_servers.checks import HANGS_S, MIXED
from tests.vllm_servers.stage import FAILED, Stage, Told, at_decode, at_prefill


def other_adapter(stage: Stage, layout: Layout) -> Finding:
    """Decode is asked for each adapter with the params of the other one, and then with its own."""
    pair, ask = stage.pair(layout), MIXED[0]
    alone = {name: at_decode(pair.prefill, ask, {}, 30.0, name) for name in layout.adapters}
    if len({tuple(told.tokens) for told in alone.values()}) < len(alone):
        raise UntestedError(f"both adapters answer alike: {alone}")
    for name, other in permutations(layout.adapters):
        params = at_prefill(pair.prefill, ask, name)
        told = at_decode(pair.decode, ask, params, HANGS_S, other)
        assert told == Told(FAILED), f"decode answers {told}, want status {FAILED}"
        both = f"adapter: {name} of {name} at prefill and {other} of {other} at decode"
        for server in pair.servers:
            words = server.log.read_text(errors="replace")
            assert both in words, f"{server.name} does not say {both!r}"
    for name, told in alone.items():
        found = at_decode(pair.decode, ask, at_prefill(pair.prefill, ask, name), 30.0, name)
        assert found == told, f"adapter {name}: decode answers {found}, want {told}"
    pair.check_nothing_is_held()
    return Finding(2 * len(alone), len(alone), f"{len(alone)} fail")
