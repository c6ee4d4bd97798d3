"""Trial: a family on a bench, profiled by both methods, and unseen members metered twice.

    members, once -> variants (paper's method) -> single stages (NeuralPower)
                  -> networks (additive method) -> members once more, and ten steps of each

The same rows serve several experiments, so a trial is made when the first of them asks for it.
FLOPs and roofline are calibrated on the networks that the additive method learns from; the paper's
method and NeuralPower need variants and single stages of their own.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ampere.acquisition.families import Network, members, read_network
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.prober import make_prober
from ampere.acquisition.strategy import Strategy
from ampere.core.fingerprint import describe_device
from ampere.core.layers import Layer, network_identity
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Fit
from ampere.estimators.baselines.flops import fit_flops, fit_flops_affine
from ampere.estimators.baselines.neuralpower import fit_neuralpower
from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.drift import usual_drift
from ampere.estimators.fitting import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.evaluation.evaluate import results_of
from ampere.evaluation.evaluation import Evaluation
from ampere.evaluation.metering import SINGLE_STAGES, Metered, single_stages
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.journal import Header
from ampere.records.measurement import Measurement
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.laboratory import Laboratory

UNSEEN = 1000  # the seed that members are drawn by; profilers draw theirs by others
NEVER = 1e-6  # a tolerance that no profile reaches: as many networks as the plan says


@dataclass(frozen=True)
class Trial:
    """What was measured for a family on a bench, and how well every method does."""

    bench: Bench
    family: str
    header: Header
    variants: tuple[Measurement, ...]
    networks: tuple[Measurement, ...]
    unseen: tuple[tuple[tuple[Layer, ...], float], ...]  # members, and their joules
    evaluation: Evaluation
    seconds: Mapping[str, float]  # of measuring and fitting, by method

    @property
    def profile(self) -> Profile:
        """What the additive method knows."""
        return Profile(self.networks, self.header)

    def mape(self, fit: Fit) -> float:
        """Mean absolute percentage error of another fit on the same members."""
        pairs = [(fit.predict(layers).total, energy_j) for layers, energy_j in self.unseen]
        errors = [total.energy_j / energy_j - 1 for total, energy_j in pairs]
        return 100 * statistics.fmean(map(abs, errors))

    @property
    def place(self) -> dict[str, Json]:
        """Where it was made."""
        return {**place(self.bench, self.evaluation.provenance), "family": self.family}

    def score(self) -> dict[str, Json]:
        """How well every method does: MAPE and bias in percent, coverage as a share."""
        evaluation, methods = self.evaluation, self.evaluation.methods
        return {
            **self.place,
            "mape": {method: evaluation.mape(method) for method in methods},
            "bias": {method: evaluation.bias(method) for method in methods},
            "bias_by_size": {method: evaluation.bias_by_size(method) for method in methods},
            "coverage_90": evaluation.coverage_90,
            "models": len(evaluation.results),
            "measurements": {"paper": len(self.variants), "additive": len(self.networks)},
        }


def place(bench: Bench, provenance: Provenance) -> dict[str, Json]:
    """A bench as it stands in every row of data."""
    return {"bench": bench.name, "title": bench.title, "provenance": provenance.value}


def trials_of(lab: Laboratory, families: Sequence[str]) -> list[Trial]:
    """Trials of these families on all benches whose plan has them, made or found.

    Raises:
        NotCovered: No bench has any of them.
    """
    trials = [
        trial_of(lab, bench, family)
        for bench in lab.benches
        for family in families
        if family in lab.sizes(bench).families
    ]
    if not trials:
        raise NotCovered(f"none of these devices has {' or '.join(families)} in its plan")
    return trials


def trial_of(lab: Laboratory, bench: Bench, family: str) -> Trial:
    """The trial of a family on a bench; what is in notebooks is not measured again."""
    if (bench.name, family) not in lab.trials:
        lab.trials[bench.name, family] = _make(lab, bench, family)
    return lab.trials[bench.name, family]


def _make(lab: Laboratory, bench: Bench, family: str) -> Trial:
    rows = _measure(lab, bench, family)
    fits, seconds = _fit(rows)
    seen = {network_identity(row.layers) for row in rows.networks}
    unseen = [
        each
        for each in rows.members
        if each.failed or network_identity(each.network.layers) not in seen
    ]
    results, failed = results_of(unseen, fits)
    if not results:
        raise DataError(f"no member of {family} could be metered; the first one: {failed[:1]}")
    layers = [each.network.layers for each in unseen if each.failed is None]
    return Trial(
        bench=bench,
        family=family,
        header=rows.header,
        variants=tuple(rows.variants),
        networks=tuple(rows.networks),
        unseen=tuple(zip(layers, (result.energy_j for result in results), strict=True)),
        evaluation=Evaluation(
            results=results,
            failed=failed,
            measurements=len(rows.networks),
            profiling_s=seconds["additive"],
            device=describe_device(rows.header.fingerprint),
            provenance=rows.header.provenance,
            seconds=0.0,
        ),
        seconds=seconds,
    )


@dataclass(frozen=True)
class _Rows:
    """What was measured, by whom it is for."""

    header: Header  # of the networks, which make a profile
    variants: Sequence[Measurement]
    stages: Sequence[Measurement]
    networks: Sequence[Measurement]
    members: Sequence[Metered]


def _measure(lab: Laboratory, bench: Bench, family: str) -> _Rows:
    """All measurements, in the order of the drawing above: members far apart."""
    from ampere.frameworks.models import layers_of, plan_variants

    sizes, spec = lab.sizes(bench), ModelSpec(f"zoo:{family}")
    drawn = list(itertools.islice(members(spec, random.Random(UNSEEN)), sizes.members(family)))
    with lab.notebook(bench, f"{family}-members") as book:
        book.measure(drawn)
    layers = layers_of(spec)
    with lab.notebook(bench, f"{family}-paper", spec.model) as book:
        strategy = Strategy("paper", max_points=sizes.points)
        variants = book.profile(Isolator(plan_variants(layers), strategy))
    with lab.notebook(bench, f"{family}-stages") as book:
        alone = single_stages(layers, sizes.levels)
        stages = [row for (row,) in book.measure(alone, effort=SINGLE_STAGES)]
    with lab.notebook(bench, f"{family}-additive", spec.model) as book:
        strategy = Strategy(max_measurements=sizes.networks, tolerance=NEVER)
        itself = read_network(spec.model, None, Training())
        prober = make_prober(itself, strategy, effort=sizes.effort, pool=sizes.pool)
        networks = book.profile(prober)
        header = book.header
    return _Rows(header, variants, stages, networks, _meter_members(lab, bench, family, drawn))


def _meter_members(
    lab: Laboratory, bench: Bench, family: str, drawn: Sequence[Network]
) -> list[Metered]:
    """Members once more, and a few steps of each."""
    with lab.notebook(bench, f"{family}-members") as book:
        pairs = book.measure(drawn, passes=2)
    with lab.notebook(bench, f"{family}-steps") as book:
        short = book.few_steps(drawn)
    return [
        Metered(member, first, second, few_steps)
        for member, (first, second), few_steps in zip(drawn, pairs, short, strict=True)
    ]


def _fit(rows: _Rows) -> tuple[list[Fit], dict[str, float]]:
    """Every method, and what measuring and fitting took for each."""
    sources: Sequence[tuple[Callable[[Sequence[Measurement]], Fit], Sequence[Measurement]]] = (
        (partial(fit_additive, drift=usual_drift(rows.header.fingerprint)), rows.networks),
        (fit_paper, rows.variants),
        (fit_roofline, rows.networks),
        (fit_neuralpower, rows.stages),
        (fit_flops_affine, rows.networks),
        (fit_flops, rows.networks),
    )
    fits: list[Fit] = []
    seconds: dict[str, float] = {}
    for fitter, measured in sources:
        start = time.perf_counter()
        fits.append(fitter(measured))
        fitting_s = time.perf_counter() - start
        seconds[fits[-1].method] = sum(row.cost_s for row in measured) + fitting_s
    return fits, seconds
