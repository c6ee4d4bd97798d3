"""Survey: a family on a bench, profiled by both methods, and unseen members metered twice.

    members, once -> variants (paper's method) -> single stages (NeuralPower)
                  -> networks (additive method) -> members once more, and ten steps of each

The same rows serve several experiments, so a survey is made when the first of them asks for it.
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

from ampere.acquisition.families import Network, members, read_network
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.prober import make_prober
from ampere.acquisition.strategy import Strategy
from ampere.core.layers import Layer, network_identity
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec
from ampere.errors import DataError, NotCovered
from ampere.estimators.additive import fit_additive, fit_roofline
from ampere.estimators.base import Fit
from ampere.estimators.flops import fit_flops, fit_flops_affine
from ampere.estimators.neuralpower import fit_neuralpower, isolated_workloads
from ampere.estimators.paper import fit_paper
from ampere.evaluation.evaluate import ISOLATED, Evaluation, result_of
from ampere.meters.base import Provenance
from ampere.profiles.estimate import estimate
from ampere.profiles.profile import Profile, describe_device
from ampere.records.journal import Header
from ampere.records.measurement import Measurement
from ampere_paper.benches import Bench
from ampere_paper.laboratory import Laboratory

UNSEEN = 1000  # the seed that members are drawn by; profilers draw theirs by others
NEVER = 1e-6  # a tolerance that no profile reaches: as many networks as the plan says


@dataclass(frozen=True)
class Survey:
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
        said = [estimate(layers, fit).energy_j / energy_j - 1 for layers, energy_j in self.unseen]
        return 100 * statistics.fmean(map(abs, said))

    @property
    def place(self) -> dict[str, Json]:
        """Where it was made."""
        return {**place(self.bench, self.evaluation.provenance), "family": self.family}

    def score(self) -> dict[str, Json]:
        """How well every method does: MAPE and bias in percent, coverage as a share."""
        found = self.evaluation
        return {
            **self.place,
            "mape": {method: found.mape(method) for method in found.methods},
            "bias": {method: found.bias(method) for method in found.methods},
            "bias_by_size": {method: found.bias_by_size(method) for method in found.methods},
            "coverage_90": found.coverage_90,
            "models": len(found.results),
            "measurements": {"paper": len(self.variants), "additive": len(self.networks)},
        }


def place(bench: Bench, provenance: Provenance) -> dict[str, Json]:
    """A bench as it stands in every row of data."""
    return {"bench": bench.name, "title": bench.title, "provenance": provenance.value}


def surveys(lab: Laboratory, families: Sequence[str]) -> list[Survey]:
    """Surveys of these families on all benches whose plan has them, made or found.

    Raises:
        NotCovered: No bench has any of them.
    """
    found = [
        survey(lab, bench, family)
        for bench in lab.benches
        for family in families
        if family in lab.sizes(bench).families
    ]
    if not found:
        raise NotCovered(f"none of these devices has {' or '.join(families)} in its plan")
    return found


def survey(lab: Laboratory, bench: Bench, family: str) -> Survey:
    """The survey of a family on a bench; what is in notebooks is not measured again."""
    if (bench.name, family) not in lab.surveys:
        lab.surveys[bench.name, family] = _survey(lab, bench, family)
    return lab.surveys[bench.name, family]


def _survey(lab: Laboratory, bench: Bench, family: str) -> Survey:
    from ampere.pytorch.reader import layers_of, plan_variants

    sizes, spec = lab.sizes(bench), ModelSpec(f"zoo:{family}")
    drawn = list(itertools.islice(members(spec, random.Random(UNSEEN)), sizes.members(family)))
    with lab.notebook(bench, f"{family}-members") as book:
        book.measure(drawn)
    layers = layers_of(spec)
    plan = plan_variants(layers)
    kinds = {layer.kind.name for layer in layers}
    with lab.notebook(bench, f"{family}-paper", spec.model) as book:
        variants = book.profile(Isolator(plan, Strategy("paper", max_points=sizes.points)))
    alone = [
        Network(f"{work.stage} of {only[0].kind.operation} alone", work, only)
        for work, only in isolated_workloads(plan, kinds, sizes.levels)
    ]
    with lab.notebook(bench, f"{family}-stages") as book:
        stages = [row for (row,) in book.measure(alone, effort=ISOLATED)]
    with lab.notebook(bench, f"{family}-additive", spec.model) as book:
        strategy = Strategy(max_measurements=sizes.networks, tolerance=NEVER)
        itself = read_network(spec.model, None, Training())
        prober = make_prober(itself, strategy, effort=sizes.effort, pool=sizes.pool)
        networks = book.profile(prober)
        header = book.header
    with lab.notebook(bench, f"{family}-members") as book:
        pairs = book.measure(drawn, passes=2)
    with lab.notebook(bench, f"{family}-steps") as book:
        few = book.extrapolate(drawn)
    fits, seconds = _fits(variants, stages, networks)
    seen = {network_identity(row.layers) for row in networks}
    results, unseen, failed = [], [], []
    for member, (first, second), steps in zip(drawn, pairs, few, strict=True):
        if reason := first.failed or second.failed:
            failed.append(f"{member.name}: {reason}")
        elif network_identity(member.layers) not in seen:
            results.append(result_of(member, first, second, steps, fits))
            unseen.append((member.layers, results[-1].energy_j))
    if not results:
        raise DataError(f"no member of {family} could be metered; the first one: {failed[:1]}")
    evaluation = Evaluation(
        tuple(results), tuple(failed), len(networks), seconds["additive"],
        describe_device(header.fingerprint), header.provenance, 0.0,
    )  # fmt: skip
    return Survey(
        bench, family, header, tuple(variants), tuple(networks), tuple(unseen), evaluation, seconds
    )


def _fits(
    variants: Sequence[Measurement],
    stages: Sequence[Measurement],
    networks: Sequence[Measurement],
) -> tuple[list[Fit], dict[str, float]]:
    """Every method, and what measuring and fitting took for the two that profile."""
    sources: Sequence[tuple[Callable[[Sequence[Measurement]], Fit], Sequence[Measurement]]] = (
        (fit_additive, networks),
        (fit_paper, variants),
        (fit_roofline, networks),
        (fit_neuralpower, stages),
        (fit_flops_affine, networks),
        (fit_flops, networks),
    )
    fits: list[Fit] = []
    seconds: dict[str, float] = {}
    for fitter, rows in sources:
        start = time.perf_counter()
        fits.append(fitter(rows))
        spent = time.perf_counter() - start
        seconds[fits[-1].method] = sum(row.cost_s for row in rows) + spent
    return fits, seconds
