import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from ampere.errors import DataError
from ampere.estimators.processes.covariance import KERNELS
from ampere.estimators.processes.gp import (
    LENGTH,
    NOISE_VAR,
    SIGNAL_VAR,
    Hyperparameters,
    fit,
    log_marginal_likelihood,
    pick_next,
)

SKLEARN = {
    "matern12": lambda s, length: ConstantKernel(s) * Matern(length, nu=0.5),
    "matern32": lambda s, length: ConstantKernel(s) * Matern(length, nu=1.5),
    "matern52": lambda s, length: ConstantKernel(s) * Matern(length, nu=2.5),
    "rbf": lambda s, length: ConstantKernel(s) * RBF(length),
    "dot": lambda s, length: ConstantKernel(s / length[0] ** 2) * DotProduct(length[0]),
}
STATIONARY = [name for name, kernel in KERNELS.items() if kernel.stationary]
GRID = np.stack(np.meshgrid([0.0, 0.3, 1.0], [0.0, 0.6, 1.0]), -1).reshape(-1, 2)

widths = st.integers(0, 20).map(lambda w: w / 20)
joules = st.integers(1, 10_000).map(lambda e: e / 100)
rows = st.lists(st.tuples(widths, widths, joules), min_size=1, max_size=8)
few = settings(max_examples=25, deadline=None)


def smooth(x):
    return 2 + x[:, 0] + np.sin(3 * x[:, 1]) * x[:, 0]


def sample(n, d=2, seed=0):
    return np.random.default_rng(seed).random((n, d))


def split(rows):
    table = np.array(rows)
    return table[:, :2], table[:, 2]


def test_every_kernel_has_an_independent_reference():
    assert set(SKLEARN) == set(KERNELS)


@pytest.mark.parametrize("name", KERNELS)
def test_posterior_and_likelihood_equal_scikit_learn(name):
    x, new = sample(12), sample(30, seed=1)
    y = smooth(x) + 0.2 * sample(12, 1, seed=2)[:, 0]
    hyper = Hyperparameters(1.7, (0.6, 0.6) if name == "dot" else (0.4, 0.9), 0.03)
    known_std = np.linspace(0.0, 0.1, 12)

    gp = fit(x, y, known_std, name, hyper=hyper)
    mean, std = gp.predict(new)

    reference = GaussianProcessRegressor(
        SKLEARN[name](hyper.signal_var, hyper.lengths),
        alpha=hyper.noise_var + (known_std / y.std()) ** 2,
        optimizer=None,
        normalize_y=True,
    ).fit(x, y)
    expected_mean, expected_std = reference.predict(new, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8)
    np.testing.assert_allclose(std, expected_std, rtol=1e-8)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood, reference.log_marginal_likelihood_value_, rtol=1e-8
    )


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [0, 1, 2, 3])
def test_gradient_equals_finite_differences(name, d):
    x = np.vstack([sample(7, d), sample(7, d)[:2]])  # two points twice
    z = np.random.default_rng(3).normal(size=9)
    theta = np.log([1.3, *[0.5, 0.8, 1.1][:d], 0.05])
    pairs = KERNELS[name].pair(x[:, None], x)

    def value(theta):
        return log_marginal_likelihood(theta, pairs, z, np.linspace(0, 0.1, 9), KERNELS[name])

    _, gradient = value(theta)
    steps = 1e-5 * np.eye(len(theta))
    numeric = [(value(theta + s)[0] - value(theta - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)


def test_recovers_a_smooth_function_and_knows_how_well():
    x, new = sample(25), sample(400, seed=1)
    mean, std = fit(x, smooth(x)).predict(new)
    error = np.abs(mean - smooth(new))
    assert error.max() < 0.05 * np.ptp(smooth(new))
    assert (error < 2 * std).mean() > 0.9
    assert std.max() < 0.1 * np.ptp(smooth(new))


@pytest.mark.parametrize("name", KERNELS)
def test_fitted_hyperparameters_maximise_likelihood_times_priors(name):
    x = sample(15)
    y = smooth(x) + 0.1 * np.random.default_rng(4).normal(size=15)
    gp = fit(x, y, kernel=name)
    priors = np.array([SIGNAL_VAR, LENGTH, LENGTH, NOISE_VAR])
    pairs = KERNELS[name].pair(x[:, None], x)
    z = (y - gp.y_mean) / gp.y_std

    def density(theta):
        value, _ = log_marginal_likelihood(theta, pairs, z, np.zeros(15), KERNELS[name])
        return value - np.square((theta - np.log(priors[:, 0])) / priors[:, 1]).sum() / 2

    best = gp.hyper.theta
    for step in 0.02 * np.vstack([np.eye(4), -np.eye(4)]):
        assert density(best) > density(best + step)


def test_several_starts_tell_waves_from_noise():
    x = np.linspace(0, 1, 20)[:, None] ** 1.2
    gp = fit(x, 2 + np.sin(25 * x[:, 0]))
    assert gp.noise_std < 0.1  # the start at a medium length takes the waves for noise of 0.7


def test_fitted_noise_is_the_noise_of_the_data():
    x = np.linspace(0, 1, 60)[:, None]
    y = 3 + np.sin(4 * x[:, 0]) + 0.1 * np.random.default_rng(5).normal(size=60)
    assert 0.075 < fit(x, y).noise_std < 0.13
    # What is known is not fitted a second time, and is never undercut.
    assert 0.1 <= fit(x, y, 0.1).noise_std < 0.13
    assert fit(x, y, 0.3).noise_std >= 0.3


def test_a_width_without_effect_gets_a_long_length():
    x = sample(20)
    y = np.sin(5 * x[:, 0])
    short, long = fit(x, y).hyper.lengths
    assert long > 3 * short
    one, same = fit(x, y, anisotropic=False).hyper.lengths
    assert one == same


def test_few_points_keep_lengths_reasonable():
    for n in (1, 2, 3, 5):
        x = np.linspace(0, 1, n)[:, None]
        for y in (1 + x[:, 0], 1 + x[:, 0] ** 2, 1 + (np.arange(n) % 2)):
            (length,) = fit(x, y).hyper.lengths
            assert 0.1 < length < 5


@few
@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_points_changes_nothing(rows, random):
    shuffled = random.sample(rows, len(rows))
    before, after = (fit(*split(some)).predict(GRID) for some in (rows, shuffled))
    np.testing.assert_array_equal(after, before)


@few
@given(rows, st.sampled_from([1e-6, 1e-3, 0.3, 7.0, 3.6e6]))
def test_a_change_of_unit_changes_only_the_unit(rows, unit):
    x, y = split(rows)
    before, after = fit(x, y, 0.1 * y), fit(x, unit * y, 0.1 * unit * y)
    np.testing.assert_allclose(
        after.predict(GRID), unit * np.array(before.predict(GRID)), rtol=1e-3
    )
    np.testing.assert_allclose(after.noise_std, unit * before.noise_std, rtol=1e-3)


@few
@given(rows, st.sampled_from(STATIONARY))
def test_nothing_is_less_certain_than_far_away(rows, name):
    x, y = split(rows)
    gp = fit(x, y, kernel=name)
    mean, std = gp.predict(np.vstack([x, GRID]))
    _, far = gp.predict([[1e3, 1e3]])
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert (std <= far * (1 + 1e-9)).all()
    assert far > 0


@pytest.mark.parametrize("name", KERNELS)
def test_extreme_points_never_give_nan(name):
    gp = fit(sample(6), smooth(sample(6)), kernel=name)
    for answer in gp.predict([[1e9, -1e9], [0.0, 0.0], [-9e99, 9e99]]):
        assert np.isfinite(answer).all()


@pytest.mark.parametrize("d", [1, 2])
def test_one_point_is_believed_there_and_not_elsewhere(d):
    mean, std = fit(np.zeros((1, d)), [4.0]).predict(np.vstack([np.zeros(d), np.ones(d)]))
    np.testing.assert_allclose(mean, 4.0)
    assert std[0] < 0.1 * 4.0
    assert std[1] > 0.3 * 4.0


@pytest.mark.parametrize("value", [0.0, 5.0, -5.0])
def test_equal_values_leave_doubt_between_them(value):
    mean, std = fit([[0.0], [1.0]], [value, value]).predict([[0.0], [0.5]])
    np.testing.assert_allclose(mean, value)
    assert std[1] > std[0] > 0
    assert std[1] > 0.02 * abs(value)


def test_repeats_at_one_point_average_and_teach_the_noise():
    x, y = [[0.0]] * 8 + [[1.0]] * 8, [0.9, 1.1] * 4 + [2.9, 3.1] * 4
    gp = fit(x, y)
    mean, std = gp.predict([[0.0], [1.0]])
    np.testing.assert_allclose(mean, [1.0, 3.0], atol=0.02)
    assert 0.07 < gp.noise_std < 0.14
    assert (std < gp.noise_std / 2).all()


def test_without_widths_it_is_the_mean_with_its_standard_error():
    y = np.array([9.0, 10.0, 11.0, 10.5, 9.5])
    mean, std = fit(np.empty((5, 0)), y, 0.0).predict(np.empty((3, 0)))
    np.testing.assert_allclose(mean, [10.0] * 3)
    np.testing.assert_allclose(std, y.std(ddof=1) / np.sqrt(5), rtol=1e-3)


def test_without_widths_known_noise_explains_the_scatter_first():
    x, y = np.empty((5, 0)), np.array([9.0, 10.0, 11.0, 10.5, 9.5])
    scatter = y.std(ddof=1)
    np.testing.assert_allclose(fit(x, y, 0.6 * scatter).noise_std, scatter)
    np.testing.assert_allclose(fit(x, y, 2 * scatter).noise_std, 2 * scatter, rtol=1e-3)


def test_without_widths_a_single_value_is_as_sure_as_its_noise():
    nothing = np.empty((1, 0))
    for noise_std, expected in ((0.3, 0.3), (None, 1.0)):  # unknown: 10 %
        mean, std = fit(nothing, [10.0], noise_std).predict(nothing)
        np.testing.assert_allclose(mean, 10.0)
        np.testing.assert_allclose(std, expected, rtol=1e-3)


def test_without_widths_agreement_of_two_is_no_proof():
    _, std = fit(np.empty((2, 0)), [10.0, 10.0]).predict(np.empty((1, 0)))
    assert 0.02 * 10 < std[0] < 0.1 * 10


def test_without_widths_a_noisy_value_counts_less():
    mean, _ = fit(np.empty((2, 0)), [10.0, 11.0], [0.5, 5.0]).predict(np.empty((1, 0)))
    assert 10.0 < mean[0] < 10.1


@pytest.mark.parametrize("name", KERNELS)
def test_condition_on_location_leaves_the_variance_that_measuring_will_leave(name):
    x, new = sample(6), sample(20, seed=1)
    gp = fit(x, smooth(x), kernel=name)
    imagined = gp.condition_on_location([0.2, 0.7])
    measured = fit(
        np.vstack([x, [0.2, 0.7]]), [*smooth(x), 100.0], kernel=name, hyper=gp.hyper
    )  # a wild value, because values do not matter
    (mean, std), (_, expected) = imagined.predict(new), measured.predict(new)
    np.testing.assert_allclose(std / imagined.y_std, expected / measured.y_std, rtol=1e-6)
    np.testing.assert_allclose(mean, gp.predict(new)[0])


def test_known_noise_limits_what_one_more_measurement_tells():
    gp = fit([[0.0], [1.0]], [1.0, 3.0], 0.5)
    _, std = gp.condition_on_location([0.5]).predict([[0.5]])
    assert gp.predict([[0.5]])[1] - std > 0
    assert std > 0.5 / 2


def test_pick_next_halves_then_quarters():
    gp = fit([[0.0], [1.0]], [1.0, 3.0])
    candidates = np.linspace(0, 1, 9)[:, None]
    assert pick_next(gp, candidates) == [4]
    assert pick_next(gp, candidates, 3)[0] == 4
    assert sorted(pick_next(gp, candidates, 3)) == [2, 4, 6]


def test_pick_next_never_repeats_a_candidate():
    gp = fit(GRID, smooth(GRID))
    candidates = np.vstack([GRID, GRID])
    assert sorted(pick_next(gp, candidates, 100)) == list(range(18))
    assert pick_next(gp, candidates, 0) == []
    assert pick_next(fit(np.empty((1, 0)), [2.0]), np.empty((3, 0)), 2) == [0, 1]


def test_fitting_is_deterministic_and_leaves_the_global_generator_alone():
    x = sample(10)
    state = np.random.get_state()[1].copy()
    first, second = (fit(x, smooth(x)) for _ in range(2))
    assert first.hyper == second.hyper
    assert (np.random.get_state()[1] == state).all()


def test_a_pickled_process_predicts_without_scipy(tmp_path):
    gp = fit(sample(5), smooth(sample(5)))
    path = tmp_path / "gp.pickle"
    path.write_bytes(pickle.dumps(gp))
    code = (
        "import pickle, sys\n"
        f"gp = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(repr(float(gp.predict([[0.5, 0.5]])[0][0])))\n"
        "assert not any(name.startswith('scipy') for name in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    np.testing.assert_allclose(float(run.stdout), gp.predict([[0.5, 0.5]])[0][0], rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([[0.0]], [1.0], None, "periodic"), "matern52"),
        (([[0.0]], [np.nan]), "leave failed measurements out"),
        (([[np.nan]], [1.0]), "range"),
        (([[np.inf]], [1.0]), "range"),
        (([0.0, 1.0], [1.0, 2.0]), "a row per point"),
        (([[0.0], [1.0]], [1.0]), "as many targets"),
        ((np.empty((0, 1)), []), "at least 1"),
        (([[0.0]], [1.0], -0.1), "noise_std"),
        (([[0.0], [1.0]], [1.0, 2.0], [0.1] * 3), "noise_std"),
    ],
)
def test_impossible_data_are_refused_in_one_line(arguments, says):
    with pytest.raises(DataError, match=says) as refused:
        fit(*arguments)
    assert "\n" not in str(refused.value)


def test_points_of_the_wrong_shape_are_refused_and_not_broadcast():
    gp = fit(sample(5), smooth(sample(5)))
    for points in ([[0.5]], [0.5, 0.5], 0.5):
        with pytest.raises(DataError, match="shape"):
            gp.predict(points)


def test_leave_one_out_is_what_fitting_without_each_point_gives() -> None:
    x = np.linspace(0, 1, 7)[:, None]
    y = np.sin(3 * x[:, 0]) + 2
    whole = fit(x, y, 0.01)
    for i, surprise in enumerate(whole.leave_one_out()):
        kept = np.arange(7) != i
        # Same hyper-parameters and the same unit and centre of y as the whole.
        z = (y[kept] - whole.y_mean) / whole.y_std
        pairs = KERNELS["matern52"].pair(x[kept][:, None], x[kept])
        known = np.full(6, (0.01 / whole.y_std) ** 2)
        k = whole.hyper.signal_var * KERNELS["matern52"].shape(pairs @ whole.weights)[0]
        inverse = np.linalg.inv(k + np.diag(known + whole.hyper.noise_var))
        cross = KERNELS["matern52"].pair(x[i][None, None], x[kept])[0] @ whole.weights
        row = whole.hyper.signal_var * KERNELS["matern52"].shape(cross)[0]
        predicted = whole.y_mean + whole.y_std * row @ inverse @ z
        assert surprise == pytest.approx(y[i] - predicted, rel=1e-6)
        rest = whole.hyper.signal_var + known[0] + whole.hyper.noise_var - row @ inverse @ row
        std = whole.y_std * np.sqrt(rest)
        assert whole.leave_one_out_std()[i] == pytest.approx(std, rel=1e-4)
