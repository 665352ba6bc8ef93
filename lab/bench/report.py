"""The results of `python -m lab bench` as Markdown tables, as JSON, and as a picture."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.files import naming
from pdproto.cli.options import STANDARD_OUTPUT, write


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one case.

    us: microseconds. fraction: of the speed of a copy of the same bytes, timed alternately with it.
    baselines: their fractions, by name. left_out: baselines without a result, with the reason.
    """

    operation: str
    case: str
    payload_bytes: int
    us: float
    fraction: float
    fraction_min: float
    fraction_max: float
    goal: float | None = None
    baselines: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def gigabytes_per_second(self) -> float:
        """The rate of the payload, in 10**9 bytes."""
        return self.payload_bytes / self.us / 1000


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run so far. `facts` and `numbers` are in the order of printing."""

    facts: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    numbers: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _left_out(rows: list[Row]) -> list[str]:
    """A line for each baseline that was left out, with the reason."""
    cases: dict[tuple[str, str], int] = {}
    for row in rows:
        for what in row.left_out.items():
            cases[what] = cases.get(what, 0) + 1
    return [f"without {name} in {count} of {len(rows)} cases: {reason}"
            for (name, reason), count in cases.items()]  # fmt: skip


def markdown(results: Results) -> str:
    """The tables of a run, in the form of kernels/RESULTS.md."""
    lines = [f"* {name}: {value}" for name, value in results.facts.items()]
    lines += [
        "",
        "| operation | case | payload | time | payload rate | of the copy | min-max | goal"
        " | others |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results.rows:
        goal = "" if row.goal is None else f"{row.goal:.2f}"
        others = ", ".join(f"{name} {value:.2f}" for name, value in row.baselines.items())
        lines.append(
            f"| {row.operation} | {row.case} | {row.payload_bytes / 1e6:.1f} MB"
            f" | {row.us:.1f} us | {row.gigabytes_per_second:.1f} GB/s | **{row.fraction:.3f}**"
            f" | {row.fraction_min:.3f}-{row.fraction_max:.3f} | {goal} | {others} |"
        )
    if results.numbers:
        lines += ["", "| measure | value |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in results.numbers.items()]
    notes = [*results.notes, *_left_out(results.rows)]
    if notes:
        lines += ["", *(f"* {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _draw(results: Results, file: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    rows = results.rows[::-1]
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(rows) + 1.2))
    places = range(len(rows))
    axes.barh(places, [row.fraction for row in rows], color="#4878a8")
    goals = [(place, row.goal) for place, row in enumerate(rows) if row.goal]
    axes.scatter([goal for _, goal in goals], [place for place, _ in goals], marker="|", s=120,
                 color="#c0504d", zorder=3, label="goal")  # fmt: skip
    axes.set_yticks(places, [f"{row.operation}: {row.case}" for row in rows], fontsize=7)
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.set_xlabel("fraction of a copy of the same bytes, same run")
    axes.set_title(", ".join(list(results.facts.values())[:2]), fontsize=9)
    axes.legend(loc="lower right", fontsize=7)
    figure.tight_layout()
    figure.savefig(file, dpi=130)


def publish(
    results: Results,
    *,
    json_file: Path | None,
    markdown_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Print the tables, and write the given files."""
    text = markdown(results)
    write(text, STANDARD_OUTPUT)
    if markdown_file is not None:
        write(text, str(markdown_file))
    if json_file is not None:
        write(json.dumps(asdict(results), indent=1) + "\n", str(json_file))
    if plot_file is not None:
        with naming(plot_file):
            _draw(results, plot_file)
