"""The switching of threads in the process of a serving engine."""

import sys
from collections.abc import Iterator

import pytest

from pdproto.transport.interpreter import share_interpreter
from pdproto.transport.settings import Settings, SettingsError


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    """Python's own, before and after each test."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_threads_switch_as_often_as_the_setting_says() -> None:
    share_interpreter(Settings())
    assert sys.getswitchinterval() == pytest.approx(0.0005)


def test_a_process_that_switches_more_often_keeps_doing_so() -> None:
    sys.setswitchinterval(0.00025)
    share_interpreter(Settings(switch_s=0.002))
    assert sys.getswitchinterval() == pytest.approx(0.00025)


def test_no_time_at_all_is_refused() -> None:
    with pytest.raises(SettingsError, match="switch_s=0: want more than 0 seconds"):
        Settings(switch_s=0.0)
