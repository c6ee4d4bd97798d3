"""Cautions: what of a prediction is borrowed, extrapolated or open, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ampere.core import units
from ampere.core.layers import Layer, LayerIdentity
from ampere.estimators.base import Line, Prediction
from ampere.estimators.encoding.encoder import STEP

SEEN = 0.01  # share of an operation that is worth a word
MOST_NAMES = 20  # of layers in a warning
NOTABLE = 0.1  # share of an operation that was not measured at such sizes, or at all
BLIND = (
    "the profile knows too little to tell: measure more networks, on a quiet machine, or add"
    " --after-steps 20"
)
UNSETTLED = (  # which matters to whoever looks at lines, not at totals
    "how joules divide between these layers and others is open, the total is known better"
    " (variants settle it: `ampere profile --per-layer`)"
)

# A line is unsettled if its deviation is more than this share of it, while the total is known so
# many times as well; layers that take less than this share of the total are not worth a word.
DOUBTFUL, SURER, NEGLIGIBLE = 1 / 3, 2.0, 0.02


def marked(prediction: Prediction) -> tuple[Line, ...]:
    """Its lines, with a mark on those of which rows tell the sum and not the parts.

    What a step costs whatever its layers are is only worth a mark beside a layer.
    """
    lines, total_j = prediction.lines, prediction.total.energy_j
    if not prediction.open_j or prediction.mean_j_std is None:
        return lines
    least = max(DOUBTFUL, SURER * prediction.mean_j_std / total_j)
    alike: defaultdict[LayerIdentity, float] = defaultdict(float)  # as they stand in the table
    for line in lines:
        alike[line.layer.identity] += line.cost.energy_j
    marked = tuple(
        replace(
            line,
            unsettled=not (line.borrowed or line.extrapolated)
            and open_j > least * line.cost.energy_j
            and alike[line.layer.identity] >= NEGLIGIBLE * total_j,
        )
        for line, open_j in zip(lines, prediction.open_j, strict=True)
    )
    return marked if any(line.unsettled and line.layer != STEP for line in marked) else lines


def cautions(prediction: Prediction) -> list[str]:
    """What a reader should know of a network's total, of its lines, or of its operations."""
    return [*_of_total(prediction), *_of_parts(prediction), *prediction.doubts]


def _of_total(prediction: Prediction) -> list[str]:
    """That the interval says nothing, if it does: about a factor of 30 from end to end."""
    return [BLIND] if prediction.total.energy_j_std > prediction.total.energy_j else []


def _of_parts(prediction: Prediction) -> list[str]:
    if prediction.shares:
        return _of_operations(prediction)
    lines = prediction.lines
    cases = (
        (
            "below 0 J, which cannot be: rows do not tell these layers apart",
            [line.layer for line in lines if line.cost.energy_j < 0],
        ),
        ("not in the total, the profile does not cover them", prediction.uncovered),
        (
            "never profiled, so borrowed from other kinds, with a wide interval",
            [line.layer for line in lines if line.borrowed],
        ),
        (
            "extrapolated beyond what was profiled of their kinds (profile the largest that you"
            " will ask about, with --candidate, or add --after-steps 20)",
            [line.layer for line in lines if line.extrapolated and not line.borrowed],
        ),
        (
            UNSETTLED,
            [line.layer for line in lines if line.unsettled],
        ),
    )
    return [f"{text}: {_names(layers)}" for text, layers in cases if layers]


def _of_operations(prediction: Prediction) -> list[str]:
    """What a survey does not know well enough of a network, operation by operation."""
    least_j = SEEN * prediction.total.energy_j
    cases = (
        (
            "not in the total, their calls are not known",
            [layer.name for layer in prediction.uncovered],
        ),
        (
            "never measured here, so borrowed from other operations, with a wide interval",
            [share.operation for share in prediction.shares if share.borrowed > NOTABLE],
        ),
        (
            "extrapolated, at sizes beyond what was surveyed (`ampere survey --like MODEL` measures"
            " there, --after-steps 20 the model itself)",
            [
                f"{share.operation} ({units.percent(share.extrapolated)} of it)"
                for share in prediction.shares
                if share.borrowed <= NOTABLE < share.extrapolated
                and share.extrapolated * share.cost.energy_j > least_j
            ],
        ),
    )
    return [f"{text}: {', '.join(names[:MOST_NAMES])}" for text, names in cases if names]


def _names(layers: Sequence[Layer]) -> str:
    """Whose names they are, each once, and no more than anybody reads."""
    names = list(dict.fromkeys(layer.name for layer in layers))
    more = f" and {len(names) - MOST_NAMES} more" if names[MOST_NAMES:] else ""
    return ", ".join(names[:MOST_NAMES]) + more
