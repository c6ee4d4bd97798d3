"""What ampere is compared with: simpler ways to the same joules and seconds.

    flops           joules per FLOP, one number for everything                fit_flops
    flops_affine    the same, and a constant for the step itself              fit_flops_affine
    neuralpower     a polynomial for each kind and stage, measured alone      fit_neuralpower
    extrapolation   a few metered steps of the model itself                   extrapolate

The first three are a `Fit`, as the paper's method is, so `ampere.estimating.estimate` sums their
layers in the same way. `isolated_workloads` says what must be measured for NeuralPower.
"""

from ampere.baselines.extrapolation import extrapolate
from ampere.baselines.flops import FlopsFit, fit_flops, fit_flops_affine
from ampere.baselines.neuralpower import NeuralPowerFit, fit_neuralpower, isolated_workloads

__all__ = [
    "FlopsFit",
    "NeuralPowerFit",
    "extrapolate",
    "fit_flops",
    "fit_flops_affine",
    "fit_neuralpower",
    "isolated_workloads",
]
