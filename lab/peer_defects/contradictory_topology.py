"""Part 3.1, S16: the bootstrap server answers OK to ranks that contradict each other.

The second rank reports four ranks, with pages of 64 tokens in fp8; the first reported two, with
pages of 16 in bfloat16. The server keeps the first report, and tells no rank of the difference.
"""

from typing import Final

import requests

from lab.peer_defects.pair import World
from lab.peer_defects.r15_ready_too_early import put
from lab.peer_defects.script import Script, Seen, play


def scene(world: World) -> Seen:
    put(world)
    status = put(world, attn_tp_rank=1, attn_tp_size=4, page_size=64, kv_cache_dtype="fp8_e4m3")
    told = requests.get(
        f"http://{world.address}/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1"
        "&target_pp_rank=-1", timeout=5)
    return Seen(status == 200 and told.status_code == 200,
                f"the second rank is answered {status}, and decode is told {told.text[:75]}...")


SCRIPT: Final = Script(
    scene, race="topology", expected="the second rank is refused, with the settings that differ")

if __name__ == "__main__":
    play(SCRIPT)
