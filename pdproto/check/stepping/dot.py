"""The states of a small system as a graph in the DOT language of Graphviz."""

import json
from collections.abc import Iterator

from pdproto.check.stepping.walk import Walker
from pdproto.check.stepping.ways import Neighbourhood
from pdproto.ground.layout import cell_name, value_name
from pdproto.spec.language.symbols import Variable


def dot(walker: Walker, states: Neighbourhood) -> str:
    """The states and the transitions between them.

    A state shows the state variables of the tables that differ from the initial state. One that
    violates a property is red, and names it. One where a run may end has a double border.
    """
    name = json.dumps(walker.system.name)
    return "\n".join([
        f"digraph {name} {{",
        '    rankdir=LR; node [shape=box, style=rounded, fontname="monospace", fontsize=10];',
        '    edge [fontname="monospace", fontsize=9];',
        *_nodes(walker, states),
        *(f"    s{before} -> s{after} [label={json.dumps(label)}];"
          for before, after, label in states.edges),
        "}",
    ])


def _nodes(walker: Walker, states: Neighbourhood) -> Iterator[str]:
    for number, node in enumerate(states.nodes):
        lines = [*_values(walker, node.state), *(f"✗ {name}" for name in node.violated)]
        options = [f"label={json.dumps(chr(10).join(lines) or 'initial', ensure_ascii=False)}"]
        if node.violated:
            options.append('color=red, fontcolor=red')
        if walker.is_final(node.state):
            options.append("peripheries=2")
        if not number:
            options.append("penwidth=2")
        yield f"    s{number} [{', '.join(options)}];"


def _values(walker: Walker, state: int) -> Iterator[str]:
    layout = walker.ground.layout
    main = {table.state for table in walker.system.tables}
    for symbol, indices in layout.fields:
        value = layout.value(state, symbol, indices)
        if isinstance(symbol, Variable) and symbol in main and value != layout.value(
            walker.initial, symbol, indices
        ):
            yield f"{cell_name(symbol, indices)} = {value_name(value)}"
