# SPDX-License-Identifier: Apache-2.0
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020 import relu_readout, ridge_power, ridge_sum, ridge_width, two_xor

D, N = 6, 50
BETA = np.eye(D)[0]
POWERS = (2, 3, 4, 6)
WIDTHS = (256, 1024, 4096, 16384)


def start(m, d=D, radius=1.0, seed=0):
    net = TwoLayer(d, m, "relu3", "symmetric", 1 / radius)
    return net, net.init(key=jax.random.key(seed))


def points(n=N, d=D, radius=1.0, seed=3):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return radius * x / np.linalg.norm(x, axis=1, keepdims=True)


def quadratic_term(net, params, dW, x):
    """f_Q by its definition, neuron by neuron."""
    W0, a = np.asarray(params.W, np.float64), np.asarray(params.a, np.float64)
    second = np.maximum(x @ W0.T, 0)
    return (second * (x @ np.asarray(dW).T) ** 2) @ a / (2 * math.sqrt(net.width))


@functools.cache
def wide_fits(power, method):
    """The construction at the table's largest width, on three starts."""
    starts = [start(65536, seed=seed) for seed in range(3)]
    return [ridge_power(*s, 1.0, BETA, power, points(), method=method) for s in starts]


def slope(x, y):
    (value, _), covariance = np.polyfit(np.log(x), np.log(y), 1, cov=True)
    return value, math.sqrt(covariance[0, 0])


@pytest.mark.parametrize(("d", "power", "zonal", "hermite"), [
    (5, 2, 9.59, 12.57), (5, 4, 38.8, 150.8), (5, 6, 71.1, 502.7),
    (100, 2, 12.38, 12.57), (100, 4, 136, 151), (100, 6, 389, 503),
])  # fmt: skip
def test_energies_of_the_readouts_are_the_tabulated_ones(d, power, zonal, hermite):
    # BL-35, alpha = B_x ||beta|| = 1, to the digits given. The table's powers are of the readout.
    W, beta = np.zeros((1, d)), np.eye(d)[0]
    energies = [relu_readout(W, 1.0, beta, power, method=m).energy for m in ("zonal", "hermite")]
    np.testing.assert_allclose(energies, [zonal, hermite], rtol=4e-3)


@pytest.mark.parametrize("method", ["hermite", "zonal"])
@pytest.mark.parametrize("power", [0, 1, 2, 4])
def test_readouts_reproduce_the_power_in_the_mean(method, power):
    # BL-35's Monte Carlo, d = 5: six points, half a million neurons in blocks, radius 2 and
    # ||beta|| = .7: within 5 standard errors at each (failure below 1e-5 in all), and E a^2 too.
    d, B, alpha = 5, 2.0, 1.3
    x, beta = points(6, d, B), 0.7 * points(1, d)[0]
    rng = np.random.default_rng(power)
    means, squares, energy = [], [], []
    for _ in range(10):
        W = rng.standard_normal((50_000, d)) / B
        readout = relu_readout(W, alpha, beta, power, radius=B, method=method)
        values = np.maximum(x @ W.T, 0) * readout.a
        means.append(values.mean(axis=1))
        squares.append((values**2).mean(axis=1))
        energy.append([np.mean(readout.a**2), np.mean(readout.a**4)])
    count = 500_000
    mean, error = np.mean(means, 0), np.sqrt(np.mean(squares, 0) / count)
    assert (np.abs(mean - alpha * (x @ beta) ** power) < 5 * error).all()
    average, fourth = np.mean(energy, 0)
    tolerance = 6 * math.sqrt(fourth / count)
    exact = relu_readout(np.zeros((1, d)), alpha, beta, power, radius=B, method=method).energy
    assert average == pytest.approx(exact, abs=tolerance)


def test_the_zonal_readout_has_the_least_energy_and_tends_to_the_hermite_one():
    for power in (0, 1, 2, 4, 6):
        pairs = []
        for d in (4, 40, 4000):
            W, beta = np.zeros((1, d)), np.eye(d)[0]
            z, h = (
                relu_readout(W, 1.0, beta, power, method=m).energy for m in ("zonal", "hermite")
            )
            assert z <= h * (1 + 1e-12)
            pairs.append(z / h)
        assert pairs[0] <= pairs[1] * (1 + 1e-12) <= pairs[2] * (1 + 2e-12)
        assert pairs[2] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("method", ["hermite", "zonal", "least-squares"])
@pytest.mark.parametrize("power", POWERS)
def test_outputs_and_norm_are_those_of_the_definitions(method, power):
    # Radius 2 and any beta: f_Q by its definition, and 8 ||beta||^4 (2/m) sum a^2.
    B, alpha = 2.0, -0.6
    net, params = start(400, radius=B)
    x, beta = points(20, radius=B), 0.4 * points(1)[0]
    fit = ridge_power(net, params, alpha, beta, power, x, method=method)
    np.testing.assert_allclose(
        fit.outputs, quadratic_term(net, params, fit.dW, x), rtol=1e-9, atol=1e-12
    )
    error = fit.outputs - alpha * (x @ beta) ** power
    assert fit.max_error == pytest.approx(np.abs(error).max(), rel=1e-9, abs=1e-14)
    assert fit.rms_error == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-9, abs=1e-14)
    kept = {"x": x} if method == "least-squares" else {}
    a = relu_readout(
        np.asarray(params.W)[:200], alpha, beta, power - 2, radius=B, method=method, **kept
    ).a
    fourth = 8 * np.linalg.norm(beta) ** 4 * np.mean(a**2)
    assert fit.norm_2_4**4 == pytest.approx(fourth, rel=1e-9)
    rows = np.linalg.norm(np.asarray(fit.dW), axis=1)
    assert fit.norm_2_4**4 == pytest.approx(np.sum(rows**4), rel=1e-12)
    # Twins never both move: one carries the positive part of a, the other the negative one.
    assert not (rows[:200] * rows[200:]).any()


@pytest.mark.parametrize("method", ["hermite", "zonal"])
@pytest.mark.parametrize("power", POWERS)
def test_the_error_falls_like_the_root_of_the_width(method, power):
    # BL-37: exponents of the max error from -.56 to -.47 over 6 starts. Here one large draw is cut
    # into starts, 2048 to 32 of them, since f_Q = (beta.x)^2 times a mean over neurons (tested
    # above); the root of their mean square has exponent -1/2 within .06, its standard error below
    # .03. The draws are fixed.
    x = points(30)
    W = np.random.default_rng(power).standard_normal((2**18, D))
    a = relu_readout(W, 1.0, BETA, power - 2, method=method).a
    values = (x @ BETA)[:, None] ** 2 * np.maximum(x @ W.T, 0) * a
    gap = values - (x @ BETA)[:, None] ** power
    means = [gap.reshape(30, -1, m // 2).mean(axis=2) for m in WIDTHS]
    errors = [np.sqrt(np.mean(np.abs(mean).max(axis=0) ** 2)) for mean in means]
    value, error = slope(WIDTHS, errors)
    assert value == pytest.approx(-0.5, abs=0.06)
    assert error < 0.03


# BL-37's table: max error at m = 65536 and ||W*||^4, Hermite and zonal; bound at delta = 1.
TABLE = {
    2: (0.0041, 0.0053, 50.3, 46.3, 100.5),
    3: (0.0063, 0.0063, 32.0, 32.0, 100.5),
    4: (0.0135, 0.0098, 100.5, 80.0, 804),
    6: (0.058, 0.020, 1206, 363, 6434),
}


@pytest.mark.parametrize("power", POWERS)
def test_errors_norms_and_bound_are_those_of_the_table(power):
    # Errors hang on the point nearest to beta, which in the table was another: within a factor 3.
    # Norms within 6% of their limits, which have the table's digits; at p = 6 the Hermite one hangs
    # on a few neurons: E h_4^4 is in the hundreds.
    *rest, bound = TABLE[power]
    for k, method in enumerate(("hermite", "zonal")):
        fits = wide_fits(power, method)
        error = np.mean([fit.max_error for fit in fits])
        assert rest[k] / 3 < error < 3 * rest[k]
        assert fits[0].norm_limit ** 4 == pytest.approx(rest[2 + k], rel=4e-3)
        for fit in fits:
            spread = 0.4 if (power, method) == (6, "hermite") else 0.06
            assert fit.norm_2_4**4 == pytest.approx(fit.norm_limit**4, rel=spread)
            assert fit.norm_bound**4 == pytest.approx(bound, rel=1e-3)
            assert fit.holds


@pytest.mark.parametrize(("power", "fourth", "off"), [
    (2, 46.3, 6e-4), (3, 31.9, 1.2e-3), (4, 72.7, 0.011), (6, 44.5, 0.030),
])  # fmt: skip
def test_least_squares_interpolates_and_is_kernel_regression_elsewhere(power, fourth, off):
    # BL-37: errors of 1e-10 at the points; elsewhere those of the last line, within a factor 3 (our
    # points are others), which for p >= 4 no width removes.
    net, params = start(65536)
    x = points()
    fit = ridge_power(net, params, 1.0, BETA, power, x, method="least-squares")
    assert fit.max_error < 1e-8
    # For p = 6 the norm, too, hangs on the points.
    assert fit.norm_2_4**4 == pytest.approx(fourth, rel=0.1 if power < 6 else 0.7)
    zonal = wide_fits(power, "zonal")[0]
    assert fit.norm_2_4 < zonal.norm_2_4 * 1.01  # the least norm that interpolates
    new = points(300, seed=5)
    rms = np.sqrt(np.mean((quadratic_term(net, params, fit.dW, new) - (new @ BETA) ** power) ** 2))
    assert off / 3 < rms < 3 * off


def test_the_factor_two_is_the_right_one():
    # BL-37: regression slope of f_Q on the target for factors 1, sqrt 2, 2, sqrt 8.
    net, params = start(65536)
    x = points()
    fit = ridge_power(net, params, 1.0, BETA, 4, x, method="zonal")
    y = (x @ BETA) ** 4
    measured = []
    for factor in (1, math.sqrt(2), 2, math.sqrt(8)):
        outputs = quadratic_term(net, params, factor / 2 * np.asarray(fit.dW), x)
        measured.append(outputs @ y / (y @ y))
    np.testing.assert_allclose(measured, [0.251, 0.502, 1.004, 2.008], rtol=0.03)


@pytest.mark.slow
def test_two_xor_has_the_tabulated_errors_and_exactly_eight_pi():
    # BL-38, d = 20 on the cube, 5 starts: rms errors .263 .136 .061 .032 .015, within 25%.
    d, widths = 20, (64, 256, 1024, 4096, 16384)
    x = np.asarray(ul.data.cube(400, d, key=jax.random.key(7)), np.float64)
    errors = []
    for m in widths:
        fits = []
        for seed in range(5):
            net, params = start(m, d, math.sqrt(d), seed)
            fit = two_xor(net, params, x)
            assert fit.norm_2_4**4 == pytest.approx(8 * math.pi, rel=1e-13)
            assert fit.holds
            assert (np.sign(fit.outputs) == x[:, 0] * x[:, 1]).mean() == 1 or m == 64
            fits.append(fit.rms_error)
        errors.append(np.mean(fits))
    np.testing.assert_allclose(errors, [0.263, 0.136, 0.061, 0.032, 0.015], rtol=0.25)
    value, error = slope(widths, errors)
    assert value == pytest.approx(-0.5, abs=0.06)
    assert error < 0.03


def test_two_xor_serves_any_two_coordinates():
    net, params = start(4096, 4, 2.0)
    x = points(30, 4, 2.0)
    fit = two_xor(net, params, x, coordinates=(3, 1))
    np.testing.assert_allclose(fit.outputs, quadratic_term(net, params, fit.dW, x), atol=1e-12)
    assert fit.rms_error < 0.2
    assert np.corrcoef(fit.outputs, x[:, 3] * x[:, 1])[0, 1] > 0.99


def test_sums_on_disjoint_neurons_have_no_cross_terms():
    # BL-39: three terms on 24576 neurons; the norm's limit is q times the sum, and the error that
    # of the terms, each on a third of the neurons.
    net, params = start(3 * 2**13)
    x, betas = points(), points(3)
    alphas, powers = [1.0, -0.5, 0.7], [2, 3, 4]
    fit = ridge_sum(net, params, alphas, betas, powers, x, method="zonal")
    parts = np.zeros(N)
    energy = bound = 0.0
    for g in range(3):
        rows = np.arange(g, net.width // 2, 3)
        both = np.concatenate([rows, rows + net.width // 2])
        alone = TwoLayerParams(W=params.W[both], a=params.a[both])
        small = TwoLayer(D, len(both), "relu3", "symmetric")
        term = ridge_power(small, alone, alphas[g], betas[g], powers[g], x, method="zonal")
        parts += term.outputs
        energy += 3 * term.norm_limit**4
        bound += 3 * term.norm_bound**4
    np.testing.assert_allclose(fit.outputs, parts, rtol=1e-9, atol=1e-12)
    assert fit.norm_limit**4 == pytest.approx(energy, rel=1e-12)
    assert fit.norm_bound**4 == pytest.approx(bound, rel=1e-12)
    assert fit.norm_2_4**4 == pytest.approx(energy, rel=0.1)
    assert fit.rms_error < 0.05
    target = ul.data.target("ridge-sum", alphas=alphas, betas=betas, powers=powers)
    assert fit.max_error == pytest.approx(np.abs(fit.outputs - target(x)).max(), rel=1e-9)


def test_sums_on_the_same_neurons_need_random_signs():
    # BL-T24: with signs the cross term falls like m^(-1/2), without it stays.
    widths, signed, plain = (256, 1024, 4096, 16384), [], []
    x, betas = points(), points(2)
    for m in widths:
        gaps = []
        for seed in range(3):
            net, params = start(m, seed=seed)
            W1, W2 = (np.asarray(ridge_power(net, params, 1.0, b, 2).dW) for b in betas)
            separate = sum(quadratic_term(net, params, W, x) for W in (W1, W2))
            signs = np.asarray(ul.escape.random_signs(m, key=jax.random.key(100 + seed)))
            for s in (signs[:, None], 1.0):
                cross = quadratic_term(net, params, W1 + s * W2, x) - separate
                gaps.append(np.sqrt(np.mean(cross**2)))
        signed.append(np.mean(gaps[::2]))
        plain.append(np.mean(gaps[1::2]))
    value, error = slope(widths, signed)
    assert value == pytest.approx(-0.5, abs=0.1 + 2 * error)
    assert error < 0.1
    assert plain[-1] > 0.8 * plain[0] > 5 * signed[-1]


def test_float32_inputs_give_the_float64_answer():
    net, params = start(512)
    x = points()
    double = ridge_power(net, params, 1.0, BETA, 4, x)
    single = ridge_power(net, params, 1.0, jnp.asarray(BETA), 4, jnp.asarray(x, jnp.float32))
    assert single.dW.dtype == jnp.float64
    np.testing.assert_array_equal(np.asarray(single.dW), np.asarray(double.dW))
    assert single.max_error == pytest.approx(double.max_error, rel=1e-4)


def test_without_points_errors_are_nan():
    net, params = start(64)
    fit = ridge_power(net, params, 1.0, BETA, 2)
    assert math.isnan(fit.max_error)
    assert fit.outputs.shape == (0,)
    assert fit.norm_2_4**4 == pytest.approx(16 * math.pi, rel=1e-12)


def test_wrong_networks_powers_and_points_are_refused(no_shape_checker):
    net, params = start(8)
    x = points()
    for power in (0, 1, 5, 7):
        with pytest.raises(ValueError, match=f"2, 3, or an even number .* got power={power}"):
            ridge_power(net, params, 1.0, BETA, power)
    with pytest.raises(ValueError, match="`power` must be 0, 1 or even, got power=3"):
        relu_readout(np.eye(3), 1.0, np.ones(3), 3)
    with pytest.raises(ValueError, match="activation='relu3', got activation='relu'"):
        ridge_power(TwoLayer(D, 8, "relu", "symmetric"), params, 1.0, BETA, 2)
    other = TwoLayer(D, 8, "relu3", "gaussian")
    with pytest.raises(ValueError, match="init='symmetric'"):
        two_xor(other, other.init(key=jax.random.key(0)))
    with pytest.raises(ValueError, match=r"rows of norm 1/init_scale = 1, got a norm of 2"):
        ridge_power(net, params, 1.0, BETA, 2, 2 * x)
    with pytest.raises(ValueError, match="`x` must be given for method='least-squares'"):
        ridge_power(net, params, 1.0, BETA, 2, method="least-squares")
    with pytest.raises(ValueError, match="`x` and `ridge` are for method='least-squares'"):
        relu_readout(np.eye(3), 1.0, np.ones(3), 2, x=np.eye(3))
    with pytest.raises(ValueError, match="Did you mean 'hermite'"):
        ridge_power(net, params, 1.0, BETA, 2, method="hermit")  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ValueError, match=r"`beta` must be a nonzero vector of shape \(6,\)"):
        ridge_power(net, params, 1.0, np.zeros(D), 2)
    with pytest.raises(ValueError, match="must be 'hermite' for fewer than 3 inputs"):
        relu_readout(np.eye(2), 1.0, np.ones(2), 2, method="zonal")
    with pytest.raises(ValueError, match="must be as many, from 1 to the number of pairs 4"):
        ridge_sum(net, params, [1.0], np.eye(D), [2])
    with pytest.raises(ValueError, match="`coordinates` must be two different ones below 6"):
        two_xor(net, params, coordinates=(0, 6))
    with pytest.raises(ValueError, match="`ridge` must be a number >= 0"):
        ridge_power(net, params, 1.0, BETA, 2, x, method="least-squares", ridge=-1)


@pytest.mark.parametrize("power", [2, 3, 4])
def test_the_width_of_theorem_7_has_the_order_of_the_width_that_is_needed(power):
    """From the error at one width: m (error/epsilon)^2, since the error falls like m^(-1/2)."""
    m, d, n, epsilon = 1024, 5, 20, 0.05

    def needed(alpha, length, radius, seed):
        x = points(n, d, radius, seed)
        fit = ridge_power(*start(m, d, radius, seed), alpha, length * np.eye(d)[0], power, x)
        return m * (fit.max_error / epsilon) ** 2

    sizes = {"n": n, "d": d, "power": power, "epsilon": epsilon}
    widths = [needed(1.0, 1.0, 1.0, seed) for seed in range(3)]
    # The theorem's hidden constant is at most 1 here: the union over n inputs and d costs most.
    assert max(widths) < ridge_width(**sizes)
    scaled = needed(3.0, 0.5, 1.5, 0) / widths[0]
    assert scaled == pytest.approx((3 * 0.75**power) ** 2, rel=1e-3)
    ratio = ridge_width(**sizes, alpha=3.0, beta_norm=0.5, radius=1.5) / ridge_width(**sizes)
    assert ratio == pytest.approx((3 * 0.75**power) ** 2, rel=1e-12)
    halved = ridge_width(**{**sizes, "epsilon": epsilon / 2}) / ridge_width(**sizes)
    assert halved == pytest.approx(4)


def test_a_width_without_a_power_of_theorem_7_is_refused():
    with pytest.raises(ValueError, match="2, 3, or an even number from 4 on, got power=5"):
        ridge_width(10, 3, 5, epsilon=0.1)
    with pytest.raises(ValueError, match="`epsilon` must be a positive number, got epsilon=0"):
        ridge_width(10, 3, 2, epsilon=0)
