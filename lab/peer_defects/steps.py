"""Steps that scenes share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lab.peer_defects.pair import Decode, Prefill, wait
from lab.peer_defects.script import SceneError

FAILED, READY, SUCCESS = 0, 2, 4


def must(holds: Callable[[], Any], what: str) -> None:
    if not wait(holds):
        raise SceneError(what)


def ready(prefill: Prefill, decode: Decode, room: int, *, page: int = 1) -> tuple[Any, Any]:
    """A sender and a receiver of the room, after the page is published and prefill knows it."""
    sender, receiver = prefill.sender(room), decode.receiver(room)
    decode.publish(receiver, page)
    must(lambda: sender.poll() == READY, f"prefill learns where the pages of room {room} are")
    return sender, receiver


def writing(prefill: Prefill, sender: Any, byte: int, *, page: int = 8, slot: int = 0) -> None:
    """The sender's chunk is under way, and does not arrive until `prefill.writes` is opened."""
    prefill.writes.shut()
    sender.send(prefill.computed(sender.bootstrap_room, page, byte, slot=slot))
    must(prefill.writes.reached.is_set, "a write is under way")


def hand_over(prefill: Prefill, decode: Decode, room: int, byte: int, *, pages: int = 1) -> None:
    """One room from its beginning to its end, a page a chunk."""
    sender, receiver = prefill.sender(room, pages=pages), decode.receiver(room)
    decode.metadata.clear_slot(0)
    receiver.send_metadata(np.arange(1, 1 + pages, dtype=np.int32), 0)
    must(lambda: sender.poll() == READY, f"room {room} is ready")
    for chunk in range(pages):
        sender.send(prefill.computed(room, 8 + chunk, byte + chunk))
    must(lambda: receiver.poll() == SUCCESS and sender.poll() == SUCCESS, f"room {room} is there")
    found = [decode.page(1 + chunk) for chunk in range(pages)]
    if found != [byte + chunk for chunk in range(pages)]:
        raise SceneError(f"room {room}: the pages are {found}")
    sender.clear()
    receiver.clear()


def fail(end: Any) -> str:
    """Take the failure and clear, as a scheduler does. Returns the reason of the failure."""
    try:
        end.failure_exception()
    except Exception as error:
        return str(error)
    return ""
