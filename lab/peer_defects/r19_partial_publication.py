"""R19: one of two decode ranks aborts before the request has come, and prefill writes to it.

The first rank has published and aborts. Prefill has no such room yet, answers at once that it has
drained, and keeps only the address. The rank gives its page away. The second rank's metadata
completes the room, the request comes, and prefill writes to both.
"""

from typing import Final

import numpy as np

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import SceneError, Script, Seen, play
from lab.peer_defects.steps import READY, must


def scene(world: World) -> Seen:
    prefill = Prefill(world, is_mla=True)
    ranks = [Decode(world, rank=rank, ranks=2) for rank in range(2)]
    first, second = (rank.receiver(19) for rank in ranks)
    must(lambda: len(prefill.manager.decode_kv_args_table) == 2, "both ranks are registered")
    first.send_metadata(np.array([1], np.int32), 0)
    first.abort()
    ranks[0].fail(first)
    if not wait(lambda: ranks[0].may_release(first), 2.0):
        return Seen(False, "the abort is not acknowledged before the request has come")
    ranks[0].release(first)
    for buffer in ranks[0].buffers:
        buffer[1] = 55  # the KV of the request that has the page now
    second.send_metadata(np.array([1], np.int32), 0)  # its own abort comes later
    sender = prefill.sender(19)
    must(lambda: sender.poll() == READY, "the room is ready")
    sender.send(prefill.computed(19, 8, 99))
    if not wait(lambda: ranks[1].buffers[0][1, 0] == 99):
        raise SceneError("the second rank gets its KV")
    wait(lambda: ranks[0].buffers[-1][1, -1] == 99, 2.0)
    shows = int(ranks[0].buffers[0][1, 0]) == 99
    return Seen(shows, "prefill acknowledged the abort, and wrote: the page of the next request "
                f"held 55, and holds {int(ranks[0].buffers[0][1, 0])}")


SCRIPT: Final = Script(
    scene, race="R19", expected="prefill writes nothing to the rank that has its answer")

if __name__ == "__main__":
    play(SCRIPT)
