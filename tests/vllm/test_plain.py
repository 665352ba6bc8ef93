"""Rooms, ranks, offers and layers: the parts of the connector that need no vLLM."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdproto.items.components import Component, Numbering
from pdproto.items.shares import TpRank, share_for
from pdproto.node.prefill.keeps import OVER
from pdproto.pages.chunks import pack_pages
from pdproto.vllm.offer import KEY, VERSION, Offer, offer_in, placed
from pdproto.vllm.pools import components, device_of, layer_number
from pdproto.vllm.ranks import DecodeRank, feed
from pdproto.vllm.rooms import OTHER_RUN, Rooms, ToldRooms

NAME = "model.layers.{}.self_attn.attn"


def test_a_room_is_refused_when_nobody_will_open_it() -> None:
    rooms, told = Rooms(), ToldRooms()
    first, second = rooms.draw(), rooms.draw()
    assert told.refusal(first) is None, "nothing is known yet"
    told.told(first)
    assert told.refusal(first) == OVER
    assert told.refusal(second) is None, "the scheduler may have drawn it already"
    assert told.refusal(Rooms(rooms.run ^ 1).draw()) == OTHER_RUN


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([(1, 1), (2, 1),
                                                                               (2, 2), (1, 1)]))
def test_both_ends_agree_on_the_pairs_of_ranks(
    theirs: int, ours: int, stages: tuple[int, int]
) -> None:
    """Every source is told the same sinks by each of them, and these are those that it feeds."""
    there, here = stages
    ranks = {(stage, tensor): (f"p{stage}-{tensor}", f"tcp://{stage}:{tensor}")
             for stage, tensor in product(range(there), range(theirs))}
    feeds = {(stage, tensor): feed(DecodeRank(TpRank(ours, tensor), stage, here), ranks)
             for stage, tensor in product(range(here), range(ours))}
    for source in ranks.values():
        fed = {rank: found for rank, found in feeds.items() if source[0] in found.sources}
        names = {DecodeRank(TpRank(ours, tensor), stage, here).name() for stage, tensor in fed}
        assert fed
        assert all(set(found.sinks) == names for found in fed.values())


@pytest.mark.parametrize(("us", "stages", "tensors", "words"), [
    (DecodeRank(TpRank(1, 0), 0, 2), 3, 1, "pipeline of 3 stages there and 2 here"),
    (DecodeRank(TpRank(2, 0)), 1, 3, "tensor parallelism 3 there and 2 here"),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused_with_both(
    us: DecodeRank, stages: int, tensors: int, words: str
) -> None:
    ranks = dict.fromkeys(product(range(stages), range(tensors)), ("p", "tcp://a:1"))
    with pytest.raises(ValueError, match=words):
        feed(us, ranks)


def test_a_rank_that_is_missing_is_noticed() -> None:
    with pytest.raises(ValueError, match="3 ranks of prefill"):
        feed(DecodeRank(TpRank(1, 0)), {(0, 0): ("a", "x"), (0, 1): ("b", "x"), (1, 0): ("c", "x")})


OFFER = Offer(VERSION, str(1 << 62), 10, 10, [0], [(0, 0, "prefill", "tcp://127.0.0.1:1")],
              {"a": "b"}, {"tokens": "0a"})


def test_an_offer_comes_through_a_proxy() -> None:
    params = OFFER.params()
    assert offer_in(params) == OFFER
    assert (params["do_remote_prefill"], params["do_remote_decode"]) == (True, False)
    assert isinstance(params[KEY]["room"], str), "a proxy may read numbers with 53 bits"


@pytest.mark.parametrize(("changes", "words"), [
    ({"version": VERSION - 1}, f"version {VERSION - 1}, and {VERSION} is known here"),
    ({"room": "x"}, "room"),
    ({"room": 1}, "room"),
    ({"room": str(1 << 63)}, "room 9223372036854775808: at most"),
    ({"tokens": 0}, "tokens"),
    ({"ranks": []}, "ranks"),
    ({"ranks": [[0, 0, "prefill"]]}, "ranks"),
    ({"firsts": []}, "firsts"),
    ({"ranks": [[0, 0, "p" * 129, "tcp://127.0.0.1:1"]]}, "ranks"),
    ({"prompt": {"tokens": "0" * 513}}, "prompt"),
    ({"prompt": {str(n): "" for n in range(17)}}, "prompt"),
    ({"seal": 5}, "seal"),
    ({"more": 1}, "more"),
])  # fmt: skip
def test_a_malformed_offer_is_refused_by_its_field(changes: dict[str, object], words: str) -> None:
    params = OFFER.params()
    params[KEY] |= changes
    with pytest.raises(ValueError, match=words):
        offer_in(params)


@pytest.mark.parametrize("twice", [
    [(0, 0, "p", "tcp://127.0.0.1:1"), (0, 0, "q", "tcp://127.0.0.1:2")],
    [(0, 0, "p", "tcp://127.0.0.1:1"), (0, 1, "p", "tcp://127.0.0.1:2")],
])  # fmt: skip
def test_a_place_or_a_name_that_an_offer_has_twice_is_refused(
    twice: list[tuple[int, int, str, str]]
) -> None:
    """Seen red where the latter took the place of the first: one rank was asked in place of two."""
    with pytest.raises(ValueError, match="want each place and each name once"):
        placed(twice)


def test_params_of_another_connector_are_refused() -> None:
    words = r"have no 'pdproto', but \['do_remote_prefill', 'remote_host'\]"
    with pytest.raises(ValueError, match=words):
        offer_in({"do_remote_prefill": True, "remote_host": "127.0.0.1"})


def test_a_block_is_an_item_of_the_same_memory() -> None:
    caches = {NAME.format(layer): torch.zeros(6, 2, 4, 10, dtype=torch.bfloat16)
              for layer in (11, 2)}
    (component,) = components(caches, [list(caches)], heads=8)
    assert component.layers == (2, 11)
    assert (component.items, component.item_bytes) == (6, 2 * 2 * 4 * 10 * 2)
    assert component.heads is not None
    assert (component.heads.total, component.heads.tokens) == (8, 1)
    component.buffers[0][3, 80:] = 1
    touched = caches[NAME.format(2)].view(torch.uint8) != 0
    assert touched[3, 1].all()
    assert int(touched.sum()) == 80, "the second head of the block, and nothing else"


def laid_out(layout: str) -> torch.Tensor:
    """The second of three layers, as vLLM makes it: [block, head, token, content] of 6 blocks, 2
    heads and 4 tokens. layout: the axes as they lie in memory, the outermost first.
    """
    axes = {"L": 3, "B": 6, "H": 2, "N": 4, "C": 10}
    made = torch.zeros([axes[axis] for axis in layout], dtype=torch.float32)
    return made.permute([layout.index(axis) for axis in "LBHNC"])[1]


@pytest.mark.parametrize(("layout", "rows"), [
    ("LBHNC", 1), ("BLHNC", 1), ("LBNHC", 4), ("BLNHC", 4)])
def test_a_block_is_found_in_every_layout_whose_blocks_are_in_one_piece(
    layout: str, rows: int
) -> None:
    """The layouts of vLLM's kernels for GPUs: tokens outermost, and layers between blocks."""
    layer = laid_out(layout)
    (component,) = components({NAME.format(0): layer}, [[NAME.format(0)]], heads=2)
    assert (component.items, component.item_bytes) == (6, 2 * 4 * 10 * 4)
    assert component.heads is not None
    assert (component.heads.total, component.heads.tokens) == (2, rows)
    component.buffers[0][3] = 63
    touched = layer.contiguous().view(torch.uint8) == 63
    assert touched[3].all()
    assert int(touched.sum()) == 2 * 4 * 10 * 4


def test_tensor_parallelism_splits_heads_whose_tokens_are_outermost() -> None:
    layer = laid_out("BLNHC")
    (ours,) = components({NAME.format(0): layer}, [[NAME.format(0)]], heads=2)
    layer[:, 1] = 1.0
    part = share_for([ours], TpRank(1, 0), TpRank(2, 1)).parts[0]
    assert part.layout is not None
    chunk = pack_pages(part.layout, [3, 5], key=1)
    sent = chunk[:part.bytes(2)][:2 * 4 * 10 * 4].view(np.float32)
    assert (sent == 1.0).all()


def test_layers_on_two_devices_are_refused_with_both() -> None:
    caches = {NAME.format(0): torch.zeros(6, 4, 10),
              NAME.format(1): torch.zeros(6, 4, 10, device="meta")}
    with pytest.raises(ValueError, match=r"layers\.0.* is on cpu and .*layers\.1.* is on meta: "):
        device_of(caches)
    del caches[NAME.format(0)]
    with pytest.raises(ValueError, match="a KV cache on meta: want it on one of cpu, cuda"):
        device_of(caches)


def test_latent_attention_has_no_heads() -> None:
    caches = {NAME.format(0): torch.zeros(6, 4, 10)}
    (component,) = components(caches, [list(caches)], heads=8)
    assert component.heads is None


def test_layers_that_share_a_cache_are_sent_once() -> None:
    shared = torch.zeros(6, 2, 4, 10)
    caches = {NAME.format(0): shared, NAME.format(1): torch.zeros(6, 2, 4, 10),
              NAME.format(2): shared}
    (component,) = components(caches, [list(caches)], heads=2)
    assert component.layers == (0, 1)


def test_groups_are_components_in_their_order() -> None:
    caches = {NAME.format(layer): torch.zeros(6, 2, 4, 10) for layer in range(4)}
    names = list(caches)
    found = components(caches, [names[::2], names[1::2]], heads=2)
    assert [component.layers for component in found] == [(0, 2), (1, 3)]


@pytest.mark.parametrize(("tensor", "words"), [
    (laid_out("LHBNC"), "set VLLM_KV_CACHE_LAYOUT to LBHNC, LBNHC, BLHNC or BLNHC"),
    (laid_out("BHLNC"), "set VLLM_KV_CACHE_LAYOUT to"),
    (torch.zeros(6, 10), "want each block in one piece"),
    (torch.zeros(1, 2, 4, 10).expand(6, -1, -1, -1), "its blocks of 320 bytes overlap, 0 bytes "),
])  # fmt: skip
def test_a_cache_of_another_form_is_refused(tensor: torch.Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        components({NAME.format(0): tensor}, [[NAME.format(0)]], heads=2)


def test_a_layer_without_a_number_is_refused() -> None:
    assert layer_number("2.self_attn") == 2
    with pytest.raises(ValueError, match=r"'model\.final'"):
        layer_number("model.final")


def test_numbers_of_components_say_how_many_a_sink_wants() -> None:
    """What a source reads off where it is to write (items/data path.py)."""
    buffer = np.zeros((4, 8), np.uint8)
    numbering = Numbering([Component("a", (buffer,), (0,)), Component("b", (buffer,), (0,))])
    assert numbering.counted([0, 1, 5]) == (2, 1)
    assert numbering.counted([]) == (0, 0)


def test_plain_integers_are_numbered_as_arrays_are() -> None:
    buffer = np.zeros((4, 8), np.uint8)
    numbering = Numbering([Component("a", (buffer,), (0,)), Component("b", (buffer,), (0,))])
    for indices in [], [3], [2, 0, 3]:
        for component in 0, 1:
            assert numbering.numbers_of(component, indices) == numbering.numbers(
                component, np.array(indices))
    for indices in [4], [0, 4], [-1], [-1, 2]:
        for number in numbering.numbers, numbering.numbers_of:
            with pytest.raises(ValueError, match=r"b: items -?\d to -?\d, but it has 4"):
                number(1, indices)
