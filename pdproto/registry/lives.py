"""What the halves of a room say to the registry: the messages of their tables as requests.

Calls block: a study makes them on its scheduler's loop, a node in a thread of its own (desks.py).
"""

from collections.abc import Iterable

from pdproto.node.rooms import DecodeRooms, Sent
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import pieces
from pdproto.spec.handoff import routing


def ask_again(rooms: DecodeRooms, client: RegistryClient) -> int:
    """Ask for all rooms at once whose rank is not known; returns how many have an answer."""
    before = len(rooms.asking)
    for some in pieces(list(rooms.asking)):
        asked, generations = [room for room, _ in some], [life for _, life in some]
        answer = client.query_rooms(asked, generations)
        for life in some:
            if life[0] in answer.dp_ranks:
                rooms.hear(routing.answer, life, answer.dp_ranks[life[0]])
            elif life[0] in answer.gone:
                rooms.hear(routing.gone, life)
    return before - len(rooms.asking)


def post(client: RegistryClient, sent: Iterable[Sent]) -> int:
    """Bring to the registry what is for it, except questions (`ask_again` asks for all at once).

    Returns the number of requests. Raises what the client raises.
    """
    requests = 0
    for message, arguments in sent:
        if message in (routing.publish, routing.retire):
            (room, generation), rank = arguments
            tell = client.register_room if message is routing.publish else client.retire_room
            tell(room, rank, generation)
        elif message is routing.withdraw:
            ((room, generation),) = arguments
            client.withdraw_rooms([room], [generation])
        else:
            continue
        requests += 1
    return requests
