"""R18: one malformed frame ends the control thread of a prefill rank, for ever.

Anything that can reach the port can send it: a scanner, or a peer of another version. From then on
the rank takes no metadata and no abort, and every request waits for a time-out. /health still
answers OK.
"""

from time import sleep
from typing import Final

import requests
import zmq

from lab.peer_defects.pair import HOST, Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import hand_over

SECONDS = 2.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    hand_over(prefill, decode, 1, 1)
    with zmq.Context() as context, context.socket(zmq.PUSH) as stranger:
        stranger.connect(f"tcp://{HOST}:{prefill.manager.rank_port}")
        stranger.send_multipart([b"hello"])
        sleep(0.5)
    sender, receiver = prefill.sender(18), decode.receiver(18)
    decode.publish(receiver, 1)
    sleep(SECONDS)
    health = requests.get(f"http://{world.address}/health", timeout=5).text
    return Seen(sender.poll() == 1, f"{SECONDS:.0f} s after its metadata was sent the room is "
                f"{prefill.status(18)} on prefill; /health says {health}")


SCRIPT: Final = Script(
    scene, race="R18",
    expected="the frame is dropped, and the next request is handed over", traced=False)

if __name__ == "__main__":
    play(SCRIPT)
