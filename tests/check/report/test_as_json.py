import json

import pytest

from pdproto.check.report.as_json import to_json
from tests.check.report import samples
from tests.check.report.printing import assert_golden


@pytest.mark.parametrize("name", ["lasso", "incomplete"])
def test_what_is_written(name: str) -> None:
    text = json.dumps(to_json(samples.SAMPLES[name]()), indent=1) + "\n"
    assert_golden(f"{name}.json", text)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_values_are_json_and_come_back_as_they_were(name: str) -> None:
    values = to_json(samples.SAMPLES[name]())
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_keys_are_those_that_are_documented() -> None:
    values = to_json(samples.safety())
    assert set(values) == {
        "system",
        "sizes",
        "faults",
        "reductions",
        "verdict",
        "states",
        "transitions",
        "depth",
        "seconds",
        "recalled",
        "complete",
        "stopped",
        "properties",
        "rows_never_fired",
        "rows_hidden",
        "row_counts",
        "deadlocks",
    }
    violated, _, unexplained, _ = values["properties"]
    assert {"name", "kind", "verdict", "assurance", "trace_length", "trace", "note"} < set(violated)
    assert len(violated["trace"]) == violated["trace_length"] == 8
    assert "trace" not in unexplained
    assert unexplained["trace_length"] is None
