"""The messages of both halves of a room to the registry, as HTTP requests.

Calls block: a study makes them on its scheduler's loop, a node in a thread of its own (desks.py).
"""

from collections.abc import Iterable

from pdproto.node.rooms import DecodeRooms, Sent
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import pieces
from pdproto.spec.handoff import routing


def ask_again(rooms: DecodeRooms, client: RegistryClient) -> int:
    """Query all rooms of unknown rank, in one request. Returns the number of answered rooms."""
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
    """Send the messages to the registry, except queries: `ask_again` sends those together.

    Returns the number of requests. Raises the errors of the client.
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
