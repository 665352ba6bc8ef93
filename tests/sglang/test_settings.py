"""Every setting of SGLang's that is about the hand-over works, says why it does not, or is refused.
"""

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pdproto.sglang import settings
from pdproto.sglang.settings import (
    BOOTSTRAP,
    ELSEWHERE,
    ENVIRONMENT,
    FAILURES,
    FLAGS,
    INTERVAL,
    UNTESTED,
    WAITING,
    Effect,
    Setting,
    absent_s,
    flag,
    page,
    refusal,
    waits,
    without_effect,
)
from pdproto.sglang.settings import CELLS as EVERY_CELL
from pdproto.sglang.versions import TESTED
from pdproto.spec.handoff.timers import WAITS
from pdproto.transport.settings import Settings
from tests.servers.cells import CELLS
from tests.servers.layouts import LAYOUTS
from tests.skips import SGLANG

ROOT = Path(__file__).resolve().parents[2]
# Of SGLang's environment: what its disaggregation reads. The rest of Mooncake's, NIXL's and MORI's
# names are of caches and of expert parallelism.
ABOUT = re.compile(r"DISAGG|FAILED_SESSION|OPTIMISTIC_PREFILL|STAGING_USE|^SGLANG_MOONCAKE_"
                   r"|^ENABLE_ASCEND_TRANSFER")
# The early send of a cached prefix is on by default: SGLang's scheduler leaves this event for it.
LEFT_BY_SGLANG = ("maybe_send_cached_prefix_chunk",)
OF_ITS_TESTS = {"SGLANG_TEST_PD_DISAGG_BACKEND", "SGLANG_TEST_PD_DISAGG_DEVICES"}


def reading(settings: Any, **changed: Any) -> Any:
    """Reads SGLang's defaults, but for these."""
    values = {setting.name: setting.default for setting in settings} | changed
    return values.__getitem__


def test_the_page_is_that_of_the_tables() -> None:
    """If this fails, run `python -m pdproto.sglang.settings > docs/sglang-settings.md`."""
    assert (ROOT / "docs" / "sglang-settings.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("setting", [
    one for one in (*ENVIRONMENT, *FLAGS) if one.effect is Effect.WORKS],
    ids=lambda setting: setting.name)
def test_one_that_works_names_its_test_or_says_that_there_is_none(setting: Setting) -> None:
    cells = {f"cell *{cell.name}*": LAYOUTS[cell.layout] for cell in CELLS}
    is_file = setting.test.startswith("tests/")
    assert is_file or setting.test in {UNTESTED, EVERY_CELL, *cells}
    if setting.test in cells:
        layout = cells[setting.test]
        assert {setting.name, flag(setting.name)} & {
            *layout.both, *layout.prefill, *layout.decode, *layout.env}, "the cell does not set it"
    if is_file and setting.about != ELSEWHERE:
        text = (ROOT / setting.test).read_text(encoding="utf-8")
        names = {name for name, value in vars(settings).items() if value == setting.name}
        assert any(name in text for name in {setting.name, *names, *LEFT_BY_SGLANG})


@pytest.mark.parametrize("setting", [one for one in (*ENVIRONMENT, *FLAGS) if one.ours],
                         ids=lambda setting: setting.name)
def test_ours_are_settings_of_pdproto(setting: Setting) -> None:
    for name in re.findall(r"`([^`]+)`", setting.ours):
        if name.startswith("waits."):
            assert name.removeprefix("waits.") in WAITS
        else:
            assert hasattr(Settings(), name)


@pytest.mark.parametrize("name", [one.name for one in FLAGS if one.about == ELSEWHERE])
def test_a_flag_of_another_part_is_read_by_no_code_that_calls_a_backend(name: str) -> None:
    """Neither SGLang's, where it drives any backend, nor ours."""
    theirs = Path(pytest.importorskip("sglang.srt.disaggregation", reason=SGLANG).__path__[0])
    ours = ROOT / "pdproto" / "sglang"
    paths = [*theirs.glob("*.py"), *theirs.glob("common/*.py"), *theirs.glob("base/*.py"),
             *(path for path in ours.glob("*.py") if path.name != "settings.py")]
    assert len(paths) > 20
    assert not [path for path in paths
                if re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))]


def test_every_setting_of_its_environment_is_listed_with_its_default() -> None:
    pytest.importorskip("sglang", minversion=TESTED.releases[-1], reason=SGLANG)
    environ = pytest.importorskip("sglang.srt.environ", reason=SGLANG)
    theirs = {name: field.default for name, field in vars(environ.Envs).items()
              if isinstance(field, environ.EnvField) and ABOUT.search(name)}
    assert {s.name: s.default for s in ENVIRONMENT} == {
        name: default for name, default in theirs.items() if name not in OF_ITS_TESTS}


def test_every_flag_is_listed_with_its_default() -> None:
    fields = pytest.importorskip("sglang.srt.arg_groups.fields.disagg", reason=SGLANG)
    theirs = fields.Disagg()
    assert {s.name: s.default for s in FLAGS} == {
        name: getattr(theirs, name) for name in fields.Disagg.__struct_fields__}


@pytest.mark.parametrize(("name", "value"), [
    (s.name, s.default is not True) for s in ENVIRONMENT if s.effect is Effect.REFUSED])
def test_a_refused_variable_is_named_with_its_value(name: str, value: bool) -> None:
    told = refusal(reading(ENVIRONMENT, **{name: value}), reading(FLAGS))
    assert told is not None
    assert told.startswith(f"the pdproto backend does not start with {name}={value}: ")


def test_a_refused_flag_is_named_with_its_value() -> None:
    told = refusal(reading(ENVIRONMENT), reading(
        FLAGS, disaggregation_decode_allocation_policy="prefill_complete"))
    assert told is not None
    assert ("does not start with --disaggregation-decode-allocation-policy=prefill_complete: "
            "SGLang itself takes") in told


def test_a_setting_without_effect_is_told_in_one_line() -> None:
    assert without_effect(reading(ENVIRONMENT), reading(FLAGS)) is None
    told = without_effect(reading(ENVIRONMENT, SGLANG_DISAGGREGATION_QUEUE_SIZE=8),
                          reading(FLAGS, disaggregation_ib_device="mlx5_0"))
    assert told == ("the pdproto backend ignores SGLANG_DISAGGREGATION_QUEUE_SIZE=8 "
                    "(hand-overs share one queue, in turn), --disaggregation-ib-device=mlx5_0 "
                    "(PDPROTO_ENGINE names the engine that moves the bytes)")
    assert refusal(reading(ENVIRONMENT), reading(FLAGS)) is None


def test_a_setting_that_a_release_lacks_is_not_set() -> None:
    """Several of the environment are newer than 0.5.22, and a server asks for each when it starts.
    """
    nothing = partial(getattr, SimpleNamespace())
    assert refusal(nothing, nothing) is None
    assert without_effect(nothing, nothing) is None


def test_time_outs_are_sglangs() -> None:
    told = reading(ENVIRONMENT, **{BOOTSTRAP: 7, WAITING: 9})
    assert waits(told) == {"bootstrap_timeout": 7.0, "transfer_timeout": 9.0}


@pytest.mark.parametrize(("interval", "failures", "named", "seconds"), [
    (5.0, 2, set[str](), 5.5), (3.0, 4, {INTERVAL, FAILURES}, 12.0), (5.0, 3, {FAILURES}, 15.0),
    (0.5, 2, {INTERVAL}, 4.0), (4.0, 0, {FAILURES}, 4.0)])
def test_requests_wait_for_sglangs_interval_times_its_failures(
    interval: float, failures: int, named: set[str], seconds: float
) -> None:
    told = reading(ENVIRONMENT, **{INTERVAL: interval, FAILURES: failures})
    assert absent_s(told, named.__contains__, 5.5) == seconds
