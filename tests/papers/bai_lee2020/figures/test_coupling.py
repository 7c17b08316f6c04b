# SPDX-License-Identifier: Apache-2.0
"""BL-E1: signs couple a wide network to its quadratic model, at the rates of the theory."""

import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data, escape, losses
from unlazy.nets import TwoLayer

WIDTHS = (128, 512, 2048, 8192)
SEEDS, DRAWS, N, D = 4, 6, 40, 8


def slope_and_error(widths, values):
    coefficients, covariance = np.polyfit(np.log(widths), np.log(values), 1, cov=True)
    return coefficients[0], math.sqrt(covariance[0, 0])


def rms(values):
    return math.sqrt(np.mean(np.square(values)))


def halves(width, plus, minus):
    """Rows along `plus` in the first half, along `minus` in the second."""
    half = width // 2
    return jnp.concatenate([jnp.tile(plus, (half, 1)), jnp.tile(minus, (half, 1))])


def structured(width):
    # Not independent of the output weights: there f^Q would fall like m^(-1/2) as well (BL-T18).
    plus = jnp.zeros(D).at[:2].set(jnp.array([1.0, 0.5])) / math.sqrt(1.25)
    return width**-0.25 * halves(width, plus, jnp.zeros(D).at[3].set(1.0))


@functools.partial(jax.jit, static_argnums=0)
def pieces(net, params, W, x, signs):
    f_Q = escape.quadratic_output(net, params, W, x)

    def at(s):
        f = escape.signed_output(net, params, W, x, s)
        slope = net.activation.derivative(1)(net.preactivations(params, x))
        f_L = (slope * (x @ escape.flip(W, s).T)) @ params.a / math.sqrt(net.width)
        return f, f_L, f - f_L - f_Q

    return f_Q, jax.vmap(at)(signs)


def sizes_at(width, seed):
    """Root mean squares over inputs, and over draws of the signs."""
    key_x, key_W, key_s = jr.split(jr.fold_in(jr.key(7), seed), 3)
    net = TwoLayer(D, width, activation="relu3", init="symmetric")
    params, x = net.init(key=key_W), data.sphere(N, D, key=key_x)
    signs = jax.vmap(lambda key: escape.random_signs(width, key=key))(jr.split(key_s, DRAWS))
    signs = jnp.concatenate([jnp.ones((1, width)), signs])
    f_Q, (f, f_L, rest) = pieces(net, params, structured(width), x, signs)
    return {
        "f_L with signs": rms(f_L[1:]),
        "f_Q": rms(f_Q),
        "f - f_Q with signs": rms(f[1:] - f_Q[None]),
        "f_L without": rms(f_L[0]),
        "remainder without": rms(rest[0]),
        "remainder with signs": rms(rest[1:]),
    }


@pytest.fixture(scope="module")
def table():
    with jax.enable_x64(True):
        runs = [[sizes_at(m, seed) for seed in range(SEEDS)] for m in WIDTHS]
    return {name: [rms([run[name] for run in row]) for row in runs] for name in runs[0][0]}


@pytest.mark.parametrize(
    ("name", "exponent"),
    [  # measured in BL-T18: -.259, -.002, -.259, +.242, -.251
        ("f_L with signs", -0.25),
        ("f_Q", 0.0),
        ("f - f_Q with signs", -0.25),
        ("f_L without", 0.25),
        ("remainder without", -0.25),
    ],
)
def test_each_part_scales_with_the_width_as_the_theory_says(table, name, exponent):
    slope, error = slope_and_error(WIDTHS, table[name])
    assert slope == pytest.approx(exponent, abs=0.06)
    assert error < 0.03


def test_signs_average_the_cubic_part_of_the_remainder_too(table):
    # BL-T18 measured -.734; a mean part of order m^(-1/2) takes over at widths not seen.
    slope, error = slope_and_error(WIDTHS, table["remainder with signs"])
    assert slope + 2 * error < -0.4


def xor_problem(width, seed):
    """BL-T19: logistic loss, y = sign(x1 x2), and the two movements of that check."""
    key_x, key_W, key_s = jr.split(jr.fold_in(jr.key(19), seed), 3)
    net = TwoLayer(6, width, activation="relu3", init="symmetric")
    x = data.sphere(30, 6, key=key_x)
    e1, e2 = jnp.eye(6)[0], jnp.eye(6)[1]
    W = 1.2 * width**-0.25 * halves(width, e1, e2)
    W_star = 2 * width**-0.25 * halves(width, e1 + e2, e1 - e2) / math.sqrt(2)
    y = jnp.sign(x[:, 0] * x[:, 1])
    return net, net.init(key=key_W), x, y, W, W_star, key_s


@functools.partial(jax.jit, static_argnums=0)
def randomised(net, params, W, W_star, batch, keys):
    """L, its slope along W, and its curvature along W_star averaged over the signs (BL-32)."""
    risk, loss = escape.RandomizedRisk(net, params, "logistic"), losses.pointwise("logistic")
    Z0, Z, Z_star = (batch[0] @ V.T for V in (params.W, W, W_star))

    def curvature(s):
        U = Z0 + s[None, :] * Z
        f = net.readout(params, U)
        first = (net.activation.derivative(1)(U) ** 2 * Z_star**2).sum(1) / net.width
        second = (net.activation.derivative(2)(U) * Z_star**2) @ params.a / math.sqrt(net.width)
        l1, l2 = (loss.derivative(k)(f, batch[1]) for k in (1, 2))
        return jnp.mean(l2 * first + l1 * second)

    def one(key):
        value, slope = jax.jvp(lambda V: risk(V, batch, key), (W,), (W,))
        s = escape.random_signs(net.width, key=key)
        return jnp.stack([value, slope, (curvature(s) + curvature(-s)) / 2])

    return jnp.mean(jax.lax.map(one, keys), axis=0)


def clean(net, params, W, W_star, batch):
    """The same three of the quadratic model, from its own formulas (BL-12, BL-T15)."""
    x, y = batch
    loss = losses.pointwise("logistic")
    f_Q, f_star = (escape.quadratic_output(net, params, V, x) for V in (W, W_star))
    Z, Z_star, bend = x @ W.T, x @ W_star.T, net.activation.derivative(2)(x @ params.W.T)
    l1, l2 = loss.derivative(1)(f_Q, y), loss.derivative(2)(f_Q, y)
    T = jnp.mean(l2 * jnp.sum(bend**2 * Z**2 * Z_star**2, axis=1)) / net.width
    values = [jnp.mean(loss(f_Q, y)), 2 * jnp.mean(l1 * f_Q), 2 * jnp.mean(l1 * f_star) + T]
    return np.array([float(value) for value in values])


def distances(width, seed):
    net, params, x, y, W, W_star, key = xor_problem(width, seed)
    pairs = int(np.clip(2**18 / width, 60, 300))
    measured = randomised(net, params, W, W_star, (x, y), jr.split(key, pairs))
    return np.abs(np.asarray(measured) - clean(net, params, W, W_star, (x, y)))


@pytest.mark.slow
def test_risk_slope_and_curvature_approach_those_of_the_quadratic_model():
    # BL-T19: exponents -.51, -.51, -.52, where the bounds (Lemmas 12 to 14) allow -1/4.
    widths = (64, 256, 1024, 4096)
    with jax.enable_x64(True):
        table = np.array([np.mean([distances(m, s) for s in range(2)], axis=0) for m in widths])
    for column in table.T:
        slope, error = slope_and_error(widths, column)
        assert slope == pytest.approx(-0.51, abs=0.12)
        assert slope + 2 * error < -0.25
    # The risk's distance at m = 8192 was 1.3e-4; a factor sqrt 2 of width above it, within 2x.
    assert 0.5 < table[-1, 0] / (math.sqrt(2) * 1.3e-4) < 2


f_Q_at = jax.jit(escape.quadratic_output, static_argnums=0)


def cross_term(width, seed, with_signs):
    """rms of f^Q at a sum of two movements, beyond the sum of the two f^Q."""
    key_x, key_W, key_s = jr.split(jr.fold_in(jr.key(24), seed), 3)
    net = TwoLayer(D, width, activation="relu3", init="symmetric")
    params, x = net.init(key=key_W), data.sphere(N, D, key=key_x)
    one, other = structured(width), jnp.roll(structured(width), 1, axis=1)
    signs = escape.random_signs(width, key=key_s) if with_signs else jnp.ones(width)
    f_Q = functools.partial(f_Q_at, net, params)
    both = f_Q(one + escape.flip(other, signs), x)
    return rms(both - f_Q(one, x) - f_Q(other, x))


def test_signs_remove_the_cross_term_of_a_sum_of_movements():
    # BL-T24, footnote 5: about m^(-1/2) with signs; without them it stays.
    widths = (256, 1024, 4096, 16384)
    with jax.enable_x64(True):
        table = {
            signs: [rms([cross_term(m, seed, signs) for seed in range(4)]) for m in widths]
            for signs in (True, False)
        }
    slope, error = slope_and_error(widths, table[True])
    assert slope == pytest.approx(-0.5, abs=0.12)
    assert error < 0.06
    assert slope_and_error(widths, table[False])[0] == pytest.approx(0, abs=0.03)
    assert table[True][-1] < table[False][-1] / 20


@pytest.fixture(scope="module")
def trained():
    """BL-28 and BL-E1 end to end: SGD on the randomised risk, 2-XOR with d = 10, n = 200."""
    d, n, m, steps = 10, 200, 256, 1500
    key_x, key_test, key_W, key_0, key_s = jr.split(jr.key(1), 5)
    x, x_test = data.cube(n, d, key=key_x), data.cube(2000, d, key=key_test)
    net = TwoLayer(d, m, activation="relu3", init="symmetric", init_scale=d**-0.5)
    risk = escape.RandomizedRisk(net, net.init(key=key_W), "logistic", strength=1e-5)
    batch = (x, x[:, 0] * x[:, 1])
    start = 0.1 * m**-0.25 * jr.normal(key_0, (m, d)) / math.sqrt(d)

    def step(W, at):
        key, rate = at
        return W - rate * jax.grad(risk)(W, batch, key), None

    rates = 0.4 * math.sqrt(m) * jnp.where(jnp.arange(steps) < 3 * steps // 5, 1.0, 0.2)
    W, _ = jax.jit(lambda W: jax.lax.scan(step, W, (jr.split(key_s, steps), rates)))(start)
    return net, risk, W, batch, x_test


def test_sgd_on_the_randomised_risk_learns_xor_through_the_quadratic_term(trained):
    net, risk, W, (x, y), x_test = trained
    signs = jax.vmap(signs_of)(jr.split(jr.key(5), 50))
    at = jax.jit(lambda x: (quadratic(x), jax.vmap(functools.partial(signed, x))(signs)))
    quadratic = functools.partial(escape.quadratic_output, net, risk.params, W)
    signed = functools.partial(escape.signed_output, net, risk.params, W)
    f_Q, f = (np.asarray(y)[None] * np.atleast_2d(np.asarray(f)) for f in at(x))
    # BL-E1 at m = 256, one seed: L .123, L^Q .129, norm 2.97; on new inputs rms f - f^Q .54 and
    # rms f^Q 1.82. (On the training inputs 1.82 would contradict L^Q, by convexity.) Over five
    # seeds of ours: .129 to .136, .123 to .128, 2.96 to 2.97, .61 to .65, 1.84 to 1.88.
    assert np.mean(np.logaddexp(0, -f)) == pytest.approx(0.128, abs=0.015)
    assert np.mean(np.logaddexp(0, -f_Q)) == pytest.approx(0.126, abs=0.01)
    assert float(escape.norm_2p(W, 4)) == pytest.approx(2.97, rel=0.02)
    f_Q, f = at(x_test)
    assert rms(f_Q) == pytest.approx(1.84, rel=0.05)
    assert rms(f - f_Q[None]) == pytest.approx(0.6, rel=0.2)


def signs_of(key):
    return escape.random_signs(256, key=key)


def test_every_predictor_of_the_trained_network_has_almost_no_test_error(trained):
    net, risk, W, _, x = trained
    y = x[:, 0] * x[:, 1]
    outputs = [
        escape.signed_output(net, risk.params, W, x, signs_of(jr.key(9))),
        escape.mean_output(net, risk.params, W, x, draws=32, key=jr.key(8)),
        escape.quadratic_output(net, risk.params, W, x),
    ]
    errors = [float(jnp.mean(y * f <= 0)) for f in outputs]
    assert errors[0] < 0.01
    assert errors[1] < 0.003
    assert errors[2] < 0.003
