"""The budget bar: what is spent, what is foreseen with its interval, and the mark of the budget.

Its places are shares of its width, so that it is as wide as its section and its letters stay as
they are.
"""

from __future__ import annotations

from ampere.reports.live.amounts import Amounts
from ampere.reports.live.history import History
from ampere.reports.parts import Gauge
from ampere.reports.svg import NAMESPACE, Svg, element

HEIGHT = 58
TOP, TALL = 22, 30  # of the bar itself
ROOM = 1.06  # beyond the largest of what is shown
RIGHT_HALF = 0.5  # where a label stands on the left of its mark


def budget_bar(history: History, amounts: Amounts, caption: str) -> Gauge:
    """The bar of a run."""
    spent_j, budget_j = history.spent_j, history.budget_j
    forecast = _forecast(history)
    _, middle_j, interval_j = forecast or ("", 0.0, (0.0, 0.0))
    whole_j = ROOM * max(spent_j, budget_j or 0.0, middle_j, interval_j[1]) or 1.0
    pieces = [element("rect", x="0", y=TOP, width="100%", height=TALL, rx=4, class_="track")]
    legend = [("spent", "spent", amounts.text(spent_j))]
    if forecast:
        name, _, _ = forecast
        pieces += _foreseen(middle_j / whole_j, interval_j[0] / whole_j, interval_j[1] / whole_j)
        limits = amounts.interval(interval_j)
        legend.append(("foreseen", name, f"{amounts.text(middle_j)} (90 %: {limits})"))
    pieces.append(_rect(0.0, spent_j / whole_j, "spent"))
    if budget_j is not None:
        pieces += _mark(budget_j / whole_j, f"budget {amounts.text(budget_j)}")
    said = ", ".join(f"{name} {text}" for _, name, text in legend)
    svg = element(
        "svg",
        element("title", said),
        *pieces,
        xmlns=NAMESPACE,
        role="img",
        class_="chart gauge",
        height=HEIGHT,
    )
    return Gauge(svg, legend, caption)


def _forecast(history: History) -> tuple[str, float, tuple[float, float]] | None:
    """What it is called, the joules in all, their interval; before the first look the estimate."""
    if history.end is not None:
        return None
    status, start = history.status, history.start
    if status is not None and status.forecast_j is not None:
        limits = status.forecast_j_interval or (status.forecast_j, status.forecast_j)
        return "forecast", status.forecast_j, limits
    if start is not None and start.estimate_j is not None and status is None:
        limits = start.estimate_j_interval or (start.estimate_j, start.estimate_j)
        return "estimate before the run", start.estimate_j, limits
    return None


def _foreseen(middle: float, low: float, high: float) -> list[Svg]:
    return [
        _rect(0.0, middle, "coming"),
        _rect(low, high, "foreseen"),
        _upright(middle, "forecast", TOP, TOP + TALL),
    ]


def _mark(at: float, label: str) -> list[Svg]:
    left = at > RIGHT_HALF
    letters = element(
        "text", label, x=_share(at), y=14, dx=-6.0 if left else 6.0, class_="end" if left else None
    )
    return [_upright(at, "budget", 2, HEIGHT - 2), letters]


def _rect(start: float, end: float, class_: str) -> Svg:
    width = _share(max(end - start, 0.0))
    return element("rect", x=_share(start), y=TOP, width=width, height=TALL, class_=class_)


def _upright(at: float, class_: str, top: float, bottom: float) -> Svg:
    return element("line", x1=_share(at), x2=_share(at), y1=top, y2=bottom, class_=class_)


def _share(share: float) -> str:
    return f"{100 * share:.2f}%"
