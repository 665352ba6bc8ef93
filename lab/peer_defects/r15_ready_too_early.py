"""R15: a rank that registers twice makes the bootstrap server ready before the other is there.

The server counts registrations. A rank whose answer was lost, or that restarts, registers again.
Two registrations have then come for two ranks, and the server answers that prefill is ready. Decode
asks for the other rank, gets the answer that there is none, and fails its request.
"""

from typing import Final

import requests

from lab.peer_defects.pair import Decode, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import FAILED, fail

RANK = {
    "attn_tp_size": 2, "attn_tp_rank": 0, "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1,
    "attn_dp_rank": 0, "pp_size": 1, "pp_rank": 0, "system_dp_size": 1, "system_dp_rank": 0,
    "rank_ip": "127.0.0.1", "rank_port": 9, "page_size": 16, "kv_cache_dtype": "bfloat16",
}


def put(world: World, **other: object) -> int:
    answer = requests.put(f"http://{world.address}/route", json=RANK | other, timeout=5)
    return answer.status_code


def scene(world: World) -> Seen:
    put(world)
    put(world)
    answer = requests.get(
        f"http://{world.address}/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1"
        "&target_pp_rank=-1", timeout=5)
    if answer.status_code != 200:
        return Seen(False, f"the server answers {answer.status_code}: {answer.text}")
    receiver = Decode(world).receiver(15)
    shows = receiver.poll() == FAILED
    return Seen(shows, f"the server says that it is ready; decode's request: {fail(receiver)}")


SCRIPT: Final = Script(scene, race="R15", expected="503 until both ranks are there")

if __name__ == "__main__":
    play(SCRIPT)
