"""No defect here: hand-overs in chunks, a room that is used again, and aborts.

python -m lab.peer_defects.plain --backend nixl
"""

from typing import Final

import numpy as np

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import FAILED, READY, fail, hand_over, must, ready


def decode_aborts(prefill: Prefill, decode: Decode, room: int, *, published: bool) -> None:
    """Abort before the pages are published, or with one chunk under way and one in the queue."""
    sender, receiver = prefill.sender(room, pages=2), decode.receiver(room)
    if published:
        receiver.send_metadata(np.array([1, 2], np.int32), 0)
        must(lambda: sender.poll() == READY, f"room {room} is ready")
        prefill.writes.shut()
        sender.send(prefill.computed(room, 8, 1))
        must(prefill.writes.reached.is_set, "a write is under way")
        sender.send(prefill.computed(room, 9, 2))
    receiver.abort()
    must(lambda: sender.poll() == FAILED, f"prefill hears of the abort of room {room}")
    prefill.writes.open()
    decode.fail(receiver)
    if published:
        must(lambda: decode.may_release(receiver), "prefill has drained")
        decode.release(receiver)
    fail(sender)


def both_abort(prefill: Prefill, decode: Decode, room: int) -> None:
    sender, receiver = ready(prefill, decode, room)
    sender.abort()
    fail(sender)
    receiver.abort()
    decode.fail(receiver)
    must(lambda: decode.may_release(receiver), "prefill has answered")
    decode.release(receiver)


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    hand_over(prefill, decode, 11, 21)
    hand_over(prefill, decode, 12, 31, pages=3)
    hand_over(prefill, decode, 11, 41)
    decode_aborts(prefill, decode, 13, published=False)
    decode_aborts(prefill, decode, 14, published=True)
    both_abort(prefill, decode, 15)
    wait(lambda: not prefill.manager._staging_outstanding, 1.0)
    return Seen(False, "every byte is where it should be")


SCRIPT: Final = Script(
    scene, race="plain", expected="every byte arrives, and what is aborted comes back")

if __name__ == "__main__":
    play(SCRIPT)
