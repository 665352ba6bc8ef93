"""R8, in the queue: a chunk of an earlier use of a room is sent to the pages of the present one.

The workers of prefill are busy, so a chunk waits in the queue when its request is aborted. The
number is used again, and decode publishes other pages. The worker takes the old chunk, finds the
room ready, sends old bytes to new pages, and concludes the new use with them.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import SUCCESS, fail, must, ready, writing


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    other, _ = ready(prefill, decode, 80, page=5)
    writing(prefill, other, 1, page=9, slot=3)  # the worker is busy with another room
    sender, receiver = ready(prefill, decode, 8, page=1)
    sender.send(prefill.computed(8, 8, 77))
    sender.abort()
    fail(sender)
    receiver.abort()
    decode.fail(receiver)
    must(lambda: decode.may_release(receiver), "prefill has drained: nothing is being written")
    decode.release(receiver)
    again, second = ready(prefill, decode, 8, page=2)
    prefill.writes.open()
    shows = wait(lambda: second.poll() == SUCCESS and again.poll() == SUCCESS, 3.0)
    return Seen(shows, f"for the second use decode has {decode.status(8)}, and prefill "
                f"{prefill.status(8)}; it has sent nothing, and its page holds {decode.page(2)}, "
                "the KV of the first")


SCRIPT: Final = Script(
    scene, race="R8, in the queue", expected=
        "chunks that were queued for the first use are dropped")

if __name__ == "__main__":
    play(SCRIPT)
