"""R8b, after an error: a room that is used again forgets that one of its writes may still arrive.

The engine gives up a write that may still land: Mooncake returns -1 after 30 s and stops no
adapter. Prefill marks the room, so that it never acknowledges an abort of it. The number is used
again, and the mark is dropped with the old entry: prefill acknowledges decode's abort at once.
"""

import threading
from typing import Any, Final

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import FAILED, fail, must, ready


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 8)
    prefill.writes.shut()
    gate = prefill.manager.send_kvcache
    late: list[threading.Thread] = []

    def give_up(*given: Any, **named: Any) -> int:
        late.append(threading.Thread(target=gate, args=given, kwargs=named))
        late[0].start()
        return -1

    prefill.manager.send_kvcache = give_up
    sender.send(prefill.computed(8, 8, 99))
    must(lambda: sender.poll() == FAILED, "prefill learns of the error")
    must(prefill.writes.reached.is_set, "the write goes on")
    fail(sender)
    must(lambda: receiver.poll() == FAILED, "decode is told of the error")
    prefill.sender(8)
    decode.fail(receiver)
    is_free = wait(lambda: decode.may_release(receiver), 2.0)
    if is_free:
        decode.release(receiver)
        for buffer in decode.buffers:
            buffer[1] = 55  # the KV of the request that has the page now
    prefill.writes.open()
    must(lambda: decode.buffers[-1][1, -1] == 99, "the write arrives")
    return Seen(is_free, "the abort was acknowledged; the page of the next request held 55, and "
                f"holds {decode.page(1)}" if is_free else "the abort is not acknowledged")


SCRIPT: Final = Script(
    scene, race="R8b, after an error",
    expected="the abort is not acknowledged, and the page is kept for 30 s", traced=False,
    only="mooncake")

if __name__ == "__main__":
    play(SCRIPT)
