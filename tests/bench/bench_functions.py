"""How fast a function into a sort is explored, beside the relation that stood for it before.

    python -m tests.bench.bench_functions [RUNS]

The lease lock of examples/lease_lock.py, once as it is, and once with a relation `last` and the
three rows that one assignment needs then. Both have the same cells and states. The runs take turns
in one process (default: 5 of each); the ratio is that of the medians of processor seconds.
"""

import sys
from dataclasses import replace
from statistics import median
from time import process_time
from typing import Final

from examples.lease_lock import SYSTEM, Client, Token, c, store, t, u, write, wrote
from pdproto.check.explore import explore
from pdproto.ground.grounding import Ground
from pdproto.spec.language import Ignore, Row, System, Table, exists, forall

RUNS: Final = 5
SIZES: Final = {Client: 2, Token: 4}


def with_a_relation() -> System:
    """The lease lock with one relation for the last token, as it was written before."""
    last = store.relation("last_is", Token)
    rows = (
        Row("store_first", on=write(c, t), when=forall(u, ~last(u)),
            do=[last(t).to(True), wrote(t).to(True)]),
        Row("store_later", on=write(c, t), choose=(u,), when=[last(u), u.before(t)],
            do=[last(u).to(False), last(t).to(True), wrote(t).to(True)]),
        Row("store_again", on=write(c, t), when=last(t)),
        Ignore(write(c, t), when=exists(u, last(u) & t.before(u)), why="a later lease has written"),
    )
    client, server, _ = SYSTEM.tables
    return replace(SYSTEM, name="lease-relation", tables=(client, server, Table(store, rows=rows)),
                   properties=())


def seconds(system: System) -> tuple[int, float]:
    """The states of the system, and the processor seconds that it takes to explore them."""
    ground = Ground(system, SIZES)
    assert ground.rows  # grounded before the clock starts
    began = process_time()
    found = explore(ground, keep_going=True)
    assert found.complete
    return found.engine.states, process_time() - began


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    # The relation is declared first, so that the states of both have a cell for it.
    forms = {"relation": with_a_relation(), "function": replace(SYSTEM, properties=())}
    took: dict[str, list[float]] = {name: [] for name in forms}
    states: dict[str, int] = {}
    for _ in range(runs):
        for name, system in forms.items():
            states[name], spent = seconds(system)
            took[name].append(spent)
    for name, all_of_it in took.items():
        print(f"{name}: {states[name]:,} states, {median(all_of_it):.3f} s")  # noqa: T201 - a command
    ratio = median(took["function"]) / median(took["relation"])
    print(f"function / relation: {ratio:.2f}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
