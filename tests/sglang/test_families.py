"""The table of model families has every kind of state of SGLang, with the backend's answer."""

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.base.conn import StateType

from pdproto.sglang.pools import UNEXPRESSED
from tests import families
from tests.families import Answer
from tests.sglang.releases import of_newest


@of_newest
def test_each_state_of_sglang_has_a_family_with_the_answer_of_the_backend() -> None:
    answers = {kind: one.answer for one in families.SGLANG for kind in one.kinds if kind != "kv"}
    assert answers.keys() == {state.value for state in StateType}
    assert {kind for kind, answer in answers.items() if answer is Answer.REFUSED} == set(
        UNEXPRESSED)
