"""Scores: how far the answers of a method are from what was metered, and what they claimed to be.

mape            mean error, as a share of what was metered; the mean of the splits' means
median_error    the median one, of all splits together
bias            the median of signed errors
coverage        share of what was asked that lies inside its 90 % interval
thirds          the same for the small, middle and large third of each split, by true joules
score           mean interval score in log joules: the width, and 20 times what is missed by
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ampere.core.groups import grouped
from ampere.errors import DataError, NotCovered
from ampere.estimators.intervals import CONFIDENCE
from ampere_paper.published.answers import Answer, Method
from ampere_paper.published.cases import Case, Split
from ampere_paper.published.extracts import Recorded, Tags
from ampere_paper.published.methods import METHODS, OURS

LEAST = 1e-3  # of the truth: what a bound of 0 J counts as, since it has no logarithm
MISS = 2 / (1 - CONFIDENCE)  # what being outside costs for each log joule (Gneiting and Raftery)
THIRDS = 3

Row = dict[str, Any]


class Outcome(NamedTuple):
    """One answer, compared with the truth."""

    error: float
    inside: bool
    score: float
    third: int
    tags: Tags


class Attempt(NamedTuple):
    """A split by one method: what came of it, or why the method does not apply."""

    outcomes: Sequence[Outcome]
    left_out: int = 0
    fit_s: float = 0.0
    refusal: str = ""


def examine(case: Case, method: str) -> Row:
    """Fit what is known of each split, and compare what it says with what is asked."""
    attempts = [attempt(split, METHODS[method]) for split in case.splits]
    refusals = [each.refusal for each in attempts if each.refusal]
    row: Row = {
        "case": case.name,
        "method": method,
        "known": [len(split.known) for split in case.splits],
        "asked": [len(split.asked) for split in case.splits],
        "repeat": case.repeat,
        "bar": case.bar if method == OURS else None,
        "median_bar": case.median_bar if method == OURS else None,
        "left_out": sum(each.left_out for each in attempts),
        "fit_s": statistics.median(each.fit_s for each in attempts),
    }
    splits = [each.outcomes for each in attempts]
    row |= _unknown() if refusals else _figures(splits)
    row["mape_by_split"] = [_mean(abs(each.error) for each in split) for split in splits]
    row["coverage_by_split"] = [_mean(each.inside for each in split) for split in splits]
    if refusals:
        row["does_not_apply"] = refusals[0]
    elif case.parts:
        row["parts"] = [part for tag in case.parts for part in _by_tag(tag, splits)]
    return row


def attempt(split: Split, method: Method) -> Attempt:
    """Fit what is known, and answer what is asked; a method that cannot says why."""
    start = time.process_time()
    try:
        learned = method(split.known)
        fit_s = time.process_time() - start
        answers = learned.answers(split.asked)
    except (DataError, NotCovered) as error:
        return Attempt((), fit_s=time.process_time() - start, refusal=str(error))
    truths_j = [row.energy_j for row in split.asked]
    order = sorted(range(len(truths_j)), key=truths_j.__getitem__)
    thirds = {i: THIRDS * place // len(order) for place, i in enumerate(order)}
    outcomes = [
        Outcome(
            error=answer.energy_j / truth_j - 1,
            inside=answer.low_j <= truth_j <= answer.high_j,
            score=interval_score(answer, truth_j),
            third=thirds[i],
            tags=split.tags[i] if split.tags else {},
        )
        for i, (answer, truth_j) in enumerate(zip(answers, truths_j, strict=True))
    ]
    return Attempt(outcomes, learned.left_out, fit_s)


def interval_score(answer: Answer, truth_j: float) -> float:
    """The width of an interval, and what it misses the truth by; the smaller the better."""
    low, high = (math.log(max(j / truth_j, LEAST)) for j in (answer.low_j, answer.high_j))
    return high - low + MISS * max(low, -high, 0.0)


def _figures(splits: Sequence[Sequence[Outcome]]) -> Row:
    every = [each for split in splits for each in split]
    errors = [each.error for each in every]
    return {
        "mape": statistics.fmean(_mape(split) for split in splits),
        "median_error": statistics.median(map(abs, errors)),
        "bias": statistics.median(errors),
        "coverage": statistics.fmean(_coverage(split) for split in splits),
        "thirds": [_mean(e.inside for e in every if e.third == third) for third in range(THIRDS)],
        "score": statistics.fmean(statistics.fmean(e.score for e in split) for split in splits),
    }


def _unknown() -> Row:
    names = ("mape", "median_error", "bias", "coverage", "thirds", "score")
    return dict.fromkeys(names)


def _by_tag(tag: str, splits: Sequence[Sequence[Outcome]]) -> list[Row]:
    """The figures of what was asked by the value of a tag, all splits together."""
    every = [each for split in splits for each in split]
    return [
        {"tag": tag, "part": same[0].tags[tag], "asked": len(same), **_figures([same])}
        for same in sorted(
            grouped(every, lambda each: each.tags[tag]), key=lambda same: same[0].tags[tag].lower()
        )
    ]


def _mape(outcomes: Sequence[Outcome]) -> float:
    return statistics.fmean(abs(each.error) for each in outcomes)


def _coverage(outcomes: Sequence[Outcome]) -> float:
    return statistics.fmean(each.inside for each in outcomes)


def _mean(values: Iterable[float]) -> float | None:
    """None of no values, such as those of a split that a method does not apply to."""
    every = list(values)
    return statistics.fmean(every) if every else None


def summary(data: Recorded) -> Row:
    """What may be kept of a data set: counts, no data."""
    return {
        "set": data.name,
        "networks": len(data.rows),
        "repeat": data.repeat,
        "rejected": data.rejected,
    }
