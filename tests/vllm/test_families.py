"""The table of model families has every kind of KV cache of vLLM, with the connector's answer."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.v1 import kv_cache_interface
from vllm.v1.kv_cache_interface import AttentionSpec, KVCacheSpec, UniformTypeKVCacheSpecs

from pdproto.vllm.configuration import KINDS, groups_of
from tests import families
from tests.families import Answer


def kinds_of(base: type) -> Iterator[type]:
    """The kinds of vLLM's own module: tests derive others."""
    kind: type
    for kind in base.__subclasses__():
        if kind.__module__ == kv_cache_interface.__name__ and kind is not AttentionSpec:
            yield kind
        yield from kinds_of(kind)


def test_each_kind_of_vllm_has_a_family_with_the_answer_of_the_connector() -> None:
    there = set(kinds_of(KVCacheSpec))
    named = {kind for one in families.VLLM for kind in one.kinds}
    assert named ^ {kind.__name__ for kind in there} <= {"KpoolTailSpec"}  # of vLLM 0.31 alone
    assert "KpoolTailSpec" in named
    served = {kind for one in families.VLLM if one.answer is not Answer.REFUSED
              for kind in one.kinds}
    assert served == {kind.__name__ for kind in (*KINDS, UniformTypeKVCacheSpecs)}
    for kind in there:
        if kind.__name__ not in served:
            cache: Any = SimpleNamespace(transfer_groups=[
                SimpleNamespace(kv_cache_spec=object.__new__(kind))])
            with pytest.raises(ValueError, match=f"a KV cache of kind {kind.__name__}: "):
                groups_of(cache)
