"""Together: how the errors of several networks on one device go together.

A profile that takes a convolution for too cheap is wrong about all models that have one, and a warm
device is warm for all of them: what a queue of jobs takes is far less sure than independent errors
would make it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Fit
from ampere.estimators.encoding.contexts import contexts_of
from ampere.estimators.encoding.encoder import STEP, distinct
from ampere.estimators.survey import SurveyFit, calls_of


def shared_errors(fit: Fit, networks: Sequence[Sequence[Layer]]) -> Array:
    """Covariance of the logarithms of what networks take, each for many steps; (t, t).

    The noise of a single metering is not in it; the mood of the device in which all of them run is.
    A method that does not know how errors go together takes them for the same.
    """
    if isinstance(fit, SurveyFit):
        return fit.stretch**2 * _covariance(fit.calls, [calls_of(each) for each in networks])
    if isinstance(fit, AdditiveFit):
        return _covariance(fit, networks)
    totals = [fit.predict(network).total for network in networks]
    relative = np.array([total.energy_j_std / total.energy_j for total in totals])
    return np.outer(relative, relative)


def _covariance(fit: AdditiveFit, networks: Sequence[Sequence[Layer]]) -> Array:
    layers, counts = distinct([(*network, STEP) for network in networks])
    contexts = contexts_of(networks)
    _, covariance = fit.energy.predict(fit.encoder.encode(layers), counts, contexts)
    return np.asarray(fit.energy.widening**2 * (covariance + fit.energy.drift_var))
