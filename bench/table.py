"""What was measured, judged and laid out. Pure: samples in, rows and text out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final, Literal

Verdict = Literal["ok", "MISSED", "skipped", "-"]

HEADINGS: Final = ("measure", "ours", "peer", "ratio", "bound", "verdict")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What a row's figure may be, the limit itself included."""

    limit: float
    sense: Literal["at most", "at least"]

    def holds(self, figure: float) -> bool:
        """Tell whether `figure` keeps the bound.

        Example:
            >>> Bound(limit=1.3, sense="at most").holds(1.3)
            True
            >>> Bound(limit=0.6, sense="at least").holds(0.59)
            False
        """
        return figure <= self.limit if self.sense == "at most" else figure >= self.limit


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    Fields:
        name: The measure's name, as `--only` takes it.
        measure: What was measured, for people.
        unit: Of every sample.
        ours, peer: Samples in the order they were taken; where both have the same number, sample
            i of one was taken next to sample i of the other. Empty when skipped.
        figure: Whether the two medians are divided or subtracted, or ours stands for itself, without a peer.
        bound: On the figure; None for a row that only gives context.
        skipped: Why there are no samples; empty when there are.
    """

    name: str
    measure: str
    unit: Literal["ms", "req/s", "MiB"]
    ours: Sequence[float] = ()
    peer: Sequence[float] = ()
    figure: Literal["ratio", "growth", "value"] = "ratio"
    bound: Bound | None = None
    skipped: str = ""

    def value(self) -> float | None:
        """Return the figure that the bound is about, None when skipped."""
        if self.skipped:
            return None
        if self.figure == "growth":
            return median(self.ours) - median(self.peer)
        if self.figure == "value":
            return median(self.ours)
        return median(self.ours) / median(self.peer)

    def verdict(self) -> Verdict:
        """Return how the row came out; `-` where nothing was promised."""
        value = self.value()
        if value is None:
            return "skipped"
        if self.bound is None:
            return "-"
        return "ok" if self.bound.holds(value) else "MISSED"


def spread(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile.

    Example:
        >>> spread([1.0, 2.0, 3.0, 4.0, 100.0])
        (2.0, 3.0, 4.0)
        >>> spread([7.0])
        (7.0, 7.0, 7.0)
    """
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return low, middle, high


def cells(row: Row) -> tuple[str, ...]:
    """Return the texts of one row, in the order of `HEADINGS`."""
    bound = _bound_text(row)
    value = row.value()
    if value is None:
        return (row.measure, "-", "-", "-", bound, f"skipped: {row.skipped}")
    ours = _samples_text(row.ours, row.unit)
    if row.figure == "value":
        return (row.measure, ours, "-", "-", bound, row.verdict())
    figure = f"{value:+.2f} {row.unit}" if row.figure == "growth" else f"{value:.3f}x"
    peer = _samples_text(row.peer, row.unit)
    return (row.measure, ours, peer, figure, bound, row.verdict())


def plain(rows: Sequence[Row]) -> str:
    """Lay out the table in columns for a terminal."""
    lines = [HEADINGS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown(rows: Sequence[Row]) -> str:
    """Lay out the table as Markdown."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def record(row: Row) -> dict[str, object]:
    """Return a row as JSON values: all of it, the medians and quartiles worked out."""
    bound = row.bound
    return {
        "name": row.name,
        "measure": row.measure,
        "unit": row.unit,
        "figure": row.figure,
        "value": row.value(),
        "value_by_round": _quartiles(_by_round(row)),
        "bound": None if bound is None else {"sense": bound.sense, "limit": bound.limit},
        "verdict": row.verdict(),
        "skipped": row.skipped,
        "ours": {**_quartiles(row.ours), "samples": list(row.ours)},
        "peer": {**_quartiles(row.peer), "samples": list(row.peer)},
    }


def _by_round(row: Row) -> list[float]:
    if row.figure != "ratio" or len(row.ours) != len(row.peer):
        return []
    return [ours / peer for ours, peer in zip(row.ours, row.peer, strict=True)]


def _quartiles(samples: Sequence[float]) -> Mapping[str, float]:
    if not samples:
        return {}
    return dict(zip(("lower_quartile", "median", "upper_quartile"), spread(samples), strict=True))


def _samples_text(samples: Sequence[float], unit: str) -> str:
    digits = 0 if unit == "req/s" else 1
    low, middle, high = (f"{value:,.{digits}f}" for value in spread(samples))
    if len(samples) == 1:
        return f"{middle} {unit}"
    return f"{middle} {unit} ({low} to {high})"


def _bound_text(row: Row) -> str:
    if row.bound is None:
        return "-"
    unit = "x" if row.figure == "ratio" else f" {row.unit}"
    return f"{row.bound.sense} {row.bound.limit:g}{unit}"
