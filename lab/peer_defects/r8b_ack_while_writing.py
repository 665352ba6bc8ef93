"""R8b: a room that is used again makes prefill acknowledge an abort while it writes.

Prefill aborts a request while a chunk of it is being written. The number is used again: the new
entry drops the count of chunks under way. Decode now aborts. Prefill counts no chunk, and answers
at once that it has drained. Decode gives the page to another request; then the write arrives.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import fail, must, ready, writing


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 8)
    writing(prefill, sender, 99)
    sender.abort()
    fail(sender)
    prefill.sender(8)
    receiver.abort()
    decode.fail(receiver)
    if not wait(lambda: decode.may_release(receiver), 2.0):
        prefill.writes.open()
        return Seen(False, "no abort is acknowledged while the write is under way")
    decode.release(receiver)
    for buffer in decode.buffers:
        buffer[1] = 55  # the KV of the request that has the page now
    prefill.writes.open()
    must(lambda: decode.buffers[-1][1, -1] == 99, "the write arrives")
    return Seen(True, "the abort was acknowledged during the write; the page of the next request "
                f"held 55, and holds {decode.page(1)}")


SCRIPT: Final = Script(
    scene, race="R8b", expected="the abort is acknowledged when the write has ended")

if __name__ == "__main__":
    play(SCRIPT)
