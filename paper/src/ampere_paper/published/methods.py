"""Methods that are asked the same questions.

additive        ampere's default method
paper           the paper's, where rows isolate kinds of layers; it knows widths alone, and what
                else varies within a kind is noise to it
roofline        linear in FLOPs and bytes, operation by operation
flops_affine    a constant and joules per FLOP
log_process     a plain Gaussian process on the logarithm of energy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ampere.estimators.baselines.flops import fit_flops_affine
from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.fitting import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.records.measurement import Measurement
from ampere_paper.published.answers import Learned, Method, by_layers
from ampere_paper.published.log_process import fit_log_process


def learn_log_process(known: Sequence[Measurement]) -> Learned:
    """The log process, as a method that answers."""
    return Learned(fit_log_process(known).answers)


OURS = "additive"
METHODS: Mapping[str, Method] = {
    OURS: by_layers(fit_additive),
    "paper": by_layers(fit_paper),
    "roofline": by_layers(fit_roofline),
    "flops_affine": by_layers(fit_flops_affine),
    "log_process": learn_log_process,
}
