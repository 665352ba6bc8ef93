"""What one prefill rank says to another of a room that decode looks for there (dp_rank.py)."""

from pdproto.runtime.wire import REASON_MAX, Disown, Life
from pdproto.transport.event_loop import Shell


def disown(node: Shell, room: int, reason: str, name: str, endpoint: str) -> None:
    """Tell the rank of that name that the room has failed here. It tells decode, when that comes.

    For any thread. Raises LocalProtocolError if the node is closed.
    """
    life = Life(room, node.incarnation, 0)  # its own: decode's life of the room is not known here
    node.ask(lambda: node.say(node.connect(name, endpoint), Disown(
        life, reason[:REASON_MAX], node.told(endpoint))))
