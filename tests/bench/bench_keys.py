"""What keys cost: the control path with CURVE, and look-ups of the registry with TLS.

    python -m tests.bench.bench_keys [RUNS]

Each is measured in turn with and without keys, on one machine. Prints the medians of RUNS runs
(default: 3) and the ratios, with the goals.
"""

import sys
from contextlib import closing
from statistics import median
from time import perf_counter
from typing import Final

from pdproto.node.link import Link
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import Registration
from pdproto.transport.keys import Keys, new_secret, of_secret
from tests.bench.bench_control import ours

RUNS: Final = 3
ROOMS: Final = 4_000
IN_FLIGHT: Final = 128
LOOK_UPS: Final = 2_000
CONTROL_GOAL: Final = 0.7
LOOK_UP_GOAL: Final = 0.6


def look_ups(keys: Keys | None) -> float:
    """Look-ups a second over one connection."""
    with (RegistryServer(keys=keys) as server,
          closing(RegistryClient(server.address, keys=keys)) as client):
        client.register(Registration(attn_tp_size=1, attn_tp_rank=0, rank_ip="127.0.0.1",
                                     rank_port=5000, incarnation=1))
        client.look_up_all()
        began = perf_counter()
        for _ in range(LOOK_UPS):
            client.look_up_all()
        return LOOK_UPS / (perf_counter() - began)


def told(what: str, plain: list[float], keyed: list[float], goal: float) -> None:
    """Print the line of one ratio."""
    print(f"{what:34} {median(plain):9,.0f}/s without keys {median(keyed):9,.0f}/s with keys: "  # noqa: T201 - this is a command
          f"{median(keyed) / median(plain):.2f} (goal: {goal})", flush=True)


def main(arguments: list[str]) -> int:
    """Print the lines."""
    runs = int(arguments[0]) if arguments else RUNS
    keys = of_secret(new_secret())
    plain, keyed = [], []
    for _ in range(runs):
        plain.append(ours(ROOMS, IN_FLIGHT).handoffs_per_s)
        keyed.append(ours(ROOMS, IN_FLIGHT, Link(curve=keys.curve)).handoffs_per_s)
    told(f"hand-overs, {IN_FLIGHT} in flight, no bytes", plain, keyed, CONTROL_GOAL)
    plain, keyed = [], []
    for _ in range(runs):
        plain.append(look_ups(None))
        keyed.append(look_ups(keys))
    told("look-ups, one connection", plain, keyed, LOOK_UP_GOAL)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
