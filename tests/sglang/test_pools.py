"""What SGLang's KVArgs point to, seen as arrays; without SGLang.

test_kvargs.py has KVArgs of SGLang's own pools, as SGLang makes them. Here are buffers that no pool
of SGLang's has: of odd lengths, on another device, of a few bytes, and of layers that miss.
"""

from typing import Any

import numpy as np
import pytest

from pdproto.items.components import DRAFT_LAYER, Numbering
from pdproto.sglang.pools import MetadataRows, Model, kv_component, state_components
from tests.sglang.arguments import arguments

torch = pytest.importorskip("torch")

from pdproto.pages.host_device import HostDevice  # noqa: E402 - needs torch

PLAIN = Model(heads=2, stage=(0, 3))
LATENT = Model(heads=None, stage=(0, 6))


def test_pools_are_the_very_memory() -> None:
    kv: list[Any] = [np.zeros((6, 2, 8), np.float32), np.zeros((6, 4), np.float64)]
    component = kv_component(arguments(kv, []), PLAIN)
    assert [pool.shape for pool in component.buffers] == [(6, 64), (6, 32)]
    assert (component.items, component.item_bytes) == (6, 96)
    component.buffers[0][3] = 0xFF
    assert np.isnan(kv[0][3]).all()
    assert not kv[0][[0, 1, 2, 4, 5]].any()
    kv[1][5] = 1.0
    assert component.buffers[1][5].any()


def test_buffers_on_a_device_are_tensors_over_its_memory() -> None:
    kv: list[Any] = [np.zeros((6, 2, 8), np.float32), np.zeros((6, 4), np.float64)]
    args = arguments(kv, [], {"swa": [np.zeros((3, 4), np.uint8)]})
    device = HostDevice()
    component = kv_component(args, PLAIN, device)
    (state,) = state_components(args, PLAIN, component, device)
    for buffer in (*component.buffers, *state.buffers):
        assert isinstance(buffer, torch.Tensor)
    component.buffers[1][5] = 255
    assert np.isnan(kv[1][5]).all()
    assert not kv[1][:5].any()


def test_the_host_pool_has_buffers_for_those_of_the_pool() -> None:
    kv, window = [np.zeros((6, 8), np.uint8)], [np.zeros((3, 4), np.uint8)]
    args = arguments(kv, [], {"swa": window})
    host = [np.zeros((9, 8), np.uint8)], [np.zeros((5, 4), np.uint8)]
    like = arguments(host[0], [], {"swa": host[1]})  # names its buffers as a pool's
    for name in ("kv", "state"):
        for what in ("data_ptrs", "data_lens", "item_lens"):
            setattr(args, f"host_{name}_{what}", getattr(like, f"{name}_{what}"))
    component = kv_component(args, PLAIN)
    (state,) = state_components(args, PLAIN, component)
    assert (component.host_items, state.host_items) == (9, 5)
    component.host[0][8] = state.host[0][4] = 7
    assert (host[0][0][8] == 7).all()
    assert (host[1][0][4] == 7).all()
    args.host_kv_item_lens = [4]
    with pytest.raises(ValueError, match=r"host_kv_item_lens: items of \[4\] bytes, and those of "
                                         r"the pool have \[8\]"):
        kv_component(args, PLAIN)


def test_a_buffer_on_another_device_is_named() -> None:
    """As with sparse attention, whose KV SGLang keeps in host memory."""
    kv: list[Any] = [np.zeros((6, 8), np.uint8) for _ in range(2)]
    args = arguments(kv, [], {"swa": kv})
    device = HostDevice()
    device.elsewhere[kv[1].ctypes.data] = "cuda:1"
    why = r"data_ptrs.*\[1\]: address 0x.* is memory of cuda:1: .* wants all pools of a rank on "
    with pytest.raises(ValueError, match="kv_" + why):
        kv_component(args, PLAIN, device)
    with pytest.raises(ValueError, match="swa state_" + why):
        state_components(args, PLAIN, kv_component(args, PLAIN), device)


def test_items_of_all_components_are_numbered_through() -> None:
    kv, window = [np.zeros((6, 8), np.uint8)], [np.zeros((3, 4), np.uint8)]
    args = arguments(kv, [], {"swa": window, "mamba": [np.zeros((2, 16), np.uint8)]})
    first = kv_component(args, PLAIN)
    components = [first, *state_components(args, PLAIN, first)]
    assert [(one.name, one.items) for one in components] == [("kv", 6), ("swa", 3), ("mamba", 2)]
    numbering = Numbering(components)
    assert numbering.numbers(0, np.array([5, 0], np.int32)) == [5, 0]
    assert numbering.chunks([np.array([2, 0]), [np.array([1])]]) == [[8, 6], [10]]
    assert numbering.chunks([None, []]) == numbering.chunks(None) == []
    assert numbering.split([8, 6]) == (1, [2, 0])
    assert numbering.split([10]) == (2, [1])
    with pytest.raises(ValueError, match="swa: items 0 to 3, but it has 3"):
        numbering.numbers(1, [0, 3])
    with pytest.raises(ValueError, match="2 items that are not all kv"):
        numbering.split([5, 6])


def test_a_state_whose_indices_are_no_items_is_refused() -> None:
    args = arguments([np.zeros((6, 8), np.uint8)], [], {"dsa_tail": []})
    with pytest.raises(ValueError, match="state buffers of type dsa_tail yet"):
        state_components(args, LATENT, kv_component(args, LATENT))


def test_a_row_of_metadata_goes_from_slot_to_slot() -> None:
    generator = np.random.default_rng(1)
    theirs: list[Any] = [generator.integers(0, 99, (4, 3), np.int32), generator.random((4, 2))]
    ours: list[Any] = [np.zeros((7, 3), np.int32), np.zeros((7, 2))]
    source, sink = MetadataRows(arguments([], theirs)), MetadataRows(arguments([], ours))
    row = source.read(2)
    assert len(row) == source.row_bytes == sink.row_bytes == 28
    sink.write(6, row)
    for there, here in zip(theirs, ours, strict=True):
        assert (here[6] == there[2]).all()
        assert not here[:6].any()


def test_a_row_of_other_buffers_is_refused_and_writes_nothing() -> None:
    ours = [np.zeros((2, 3), np.int32)]
    with pytest.raises(ValueError, match="a metadata row of 8 bytes, but rows here have 12"):
        MetadataRows(arguments([], ours)).write(0, bytes(8))
    assert not ours[0].any()


def test_lengths_that_do_not_fit_name_the_buffer() -> None:
    args = arguments([np.zeros((3, 8), np.uint8)], [], {"swa": [np.zeros((3, 8), np.uint8)]})
    kv = kv_component(args, PLAIN)
    args.kv_item_lens, args.state_item_lens = [7], [[5]]
    with pytest.raises(ValueError, match=r"kv_data_ptrs\[0\]: 24 bytes .* 7 bytes"):
        kv_component(args, PLAIN)
    with pytest.raises(ValueError, match=r"swa state_data_ptrs\[0\]\[0\]: 24 bytes .* 5 bytes"):
        state_components(args, PLAIN, kv)


@pytest.mark.parametrize(("model", "drafts", "layers"), [
    (Model(None, (4, 9)), 1, (4, 5, 6, 7, 8, DRAFT_LAYER)),
    (Model(2, None), 0, ()),
    (Model(2, (8, 14)), 0, ()),
    (Model(2, (0, None)), 0, ()),
    (PLAIN, 1, ()),
], ids=str)
def test_buffers_are_named_by_counting_where_each_layer_has_its_own(
    model: Model, drafts: int, layers: tuple[int, ...]
) -> None:
    """Of six; SGLang names the layers of hybrid pools only."""
    args = arguments([np.zeros((6, 8), np.uint8) for _ in range(6)], [])
    args.num_draft_entries = drafts
    assert kv_component(args, model).layers == layers
    args.mla_compression_ratios = [4, 128]
    assert kv_component(args, model).layers == ()
    args.kv_layer_ids = [3, 5, 7, 3, 5, 7]
    assert kv_component(args, model).layers == (3, 5, 7, 3, 5, 7)


def test_an_index_for_each_layer_has_the_names_of_the_kv() -> None:
    kv = [np.zeros((6, 8), np.uint8) for _ in range(3)]
    for indices, layers in ((kv, (4, 5, 6)), (kv[:2], ())):
        args = arguments(kv, [], {"dsa": indices})
        model = Model(None, (4, 7))
        (state,) = state_components(args, model, kv_component(args, model))
        assert state.layers == layers
