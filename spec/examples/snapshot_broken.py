"""The distributed snapshot with markers on a connection of their own, which is a mistake.

Control messages often have a connection of their own, so that they do not wait behind data. But
then a marker overtakes tokens that were sent before it. So the receiver counts such a token neither
at its sender nor on its way.

Rule 4 of snapshot.py forbids it.
"""

from typing import Final

from pdproto.spec.examples.snapshot import Node, Place, Snapshot, Token
from pdproto.spec.language import Configuration, Sort, System, edited


class Control(Sort, ordered=True):
    """A place in a channel for markers alone."""


SYSTEM: Final[System] = edited(
    Snapshot(Control).system("snapshot", ""), "snapshot-broken",
    about="A distributed snapshot whose markers have channels of their own, which is a mistake.",
    configurations={"default": Configuration({Node: 2, Token: 1, Place: 2, Control: 1})},
)
