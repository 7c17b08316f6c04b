# SPDX-License-Identifier: Apache-2.0
"""How three-layer learners couple to their pseudo networks: LG-30 to LG-34, as measured there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy import data
from unlazy.curvature import extreme_eigenvalues
from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerObjective,
    flip_first_layer,
    pseudo_output,
    pseudo_terms,
    signed_coupling,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import Draw, Movement
from unlazy.papers.shared import sign_pattern


def with_hidden(params, W, V):
    return eqx.tree_at(lambda p: (p.W, p.V), params, (W, V))


def rank_one(params, x, w_size, v_size):
    """All first-layer rows along x, all second-layer rows along the sign of their output."""
    W = w_size * jnp.ones_like(params.W) * x
    return with_hidden(params, W, v_size * jnp.sign(params.a)[:, None] * jnp.ones_like(params.V))


def start(m, seed):
    net = ThreeLayer(4, m)
    return net, net.init(key=jr.key(seed)), data.sphere(1, 4, key=jr.key(1000 + seed))


WIDTHS = (128, 256, 512, 1024, 2048)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("power", "first", "second", "exponents"),
    [
        (0.0, (0.35, 0.34, 0.40, 0.38, 0.43), (0.040, 0.032, 0.021, 0.016, 0.012), (0.07, -0.45)),
        (0.25, (0.104, 0.084, 0.085, 0.067, 0.064), (0.136, 0.127, 0.100, 0.088, 0.078),
         (-0.18, -0.20)),
    ],
)  # fmt: skip
def test_cross_terms_have_the_measured_size_and_exponents(power, first, second, exponents):
    # LG-30 (iii), s = m^power, three seeds and 200 signs there. The cross terms are linear in the
    # signs: their standard deviation over them is the norm of the gradient, exactly, and the two
    # powers are one measurement, scaled. A seed moves a term by 14 % at m = 128 and 4 % at 2048; of
    # 24 seeds ours are .426, .416, .398, .401, .399 and .0451, .0320, .0221, .0158, .0111: the
    # recorded .35 and .34 are 2.5 of their standard errors low and .43 as many high, and with them
    # the exponents .07 and -.45 instead of -.024 and -.506, next to theory's 0 and -1/2.
    found = np.array([cross_terms(m, power, 8 if m < 2048 else 4) for m in WIDTHS])
    # For other seeds of ours each tolerance is three standard deviations or more (3e-3 each).
    np.testing.assert_allclose(found[:, 0], first, rtol=0.4)
    np.testing.assert_allclose(found[:, 1], second, rtol=0.3)
    assert np.all((found[:, 2] > 0.16) & (found[:, 2] < 0.25))  # the signal, 0.18-0.21 for all m
    slopes = np.polyfit(np.log(WIDTHS), np.log(found[:, :2]), 1)[0]
    np.testing.assert_allclose(slopes, exponents, atol=0.16)
    # Eight seeds: the exponents have standard deviations of .02 and .01.
    theory = [0.0, -0.5] if power == 0 else [-0.25, -0.25]
    np.testing.assert_allclose(slopes, theory, atol=0.1)


def cross_terms(m, power, seeds):
    """Root mean squares over the starts of both cross terms and of the signal."""
    net, scale = ThreeLayer(4, m), m**power

    @jax.jit
    def one(params, x):
        delta = rank_one(params, x, scale / m, 1 / (m * scale))
        pattern = sign_pattern(net, params, x)

        def parts(signs):
            found = pseudo_terms(net, params, flip_first_layer(delta, signs), x, pattern)
            return jnp.stack([found.cross_V[0], found.cross_W[0], found.quadratic[0]])

        values, pull = jax.vjp(parts, jnp.ones(m))
        norms = [jnp.linalg.norm(pull(row)[0]) for row in jnp.eye(3)[:2]]
        return jnp.stack([*norms, values[2]])

    rows = [one(*start(m, seed)[1:]) for seed in range(seeds)]
    return np.sqrt(np.mean(np.square(rows), axis=0))


def coupled(m, seeds):
    """Root mean squares over the starts, 20 signs each: signal, error, and error without signs."""
    found = []
    for seed in range(seeds):
        net, params, x = start(m, seed)
        delta = rank_one(params, x, 2 * m**0.25 / m, 1 / (m * m**0.25))
        r = signed_coupling(net, params, delta, x, draws=20, key=jr.key(seed))
        found.append([r.signal, r.error, r.unsigned_error])
    return np.sqrt(np.mean(np.square(found), axis=0))


def check_coupling(m, recorded, seeds):
    """LG-31, four seeds of 20 signs there.

    Root mean squares of four seeds have a standard deviation of 12, 8, 7, 4, 9 % with the signs, by
    width, and of 16, 11, 8, 11, 5 % without. Over 24 seeds ours are .306, .265, .224, .190, .149
    and .84, .96, 1.15, 1.36, 1.59, at most 17 % from the record; those of 12 other seeds would stay
    within the tolerances but for 1e-3 each.
    """
    signal, error, unsigned = coupled(m, seeds)
    assert 0.33 < signal < 0.5  # on record 0.37 to 0.42
    assert error < signal < unsigned
    assert error == pytest.approx(recorded[0], rel=0.35)
    assert unsigned == pytest.approx(recorded[1], rel=0.4)
    return error, unsigned


COUPLED = dict(zip(WIDTHS, [
    (0.28, 0.77), (0.31, 0.96), (0.21, 1.25), (0.21, 1.17), (0.14, 1.63)
], strict=True))  # fmt: skip


@pytest.mark.parametrize("m", [128, 256, 512])
def test_signs_couple_the_network_to_its_quadratic_part(m):
    check_coupling(m, COUPLED[m], 12)


@pytest.mark.slow
def test_signs_couple_better_and_their_absence_worse_with_the_width():
    # The recorded errors fall from .28 to .14, and grow from .77 to 1.63 without the signs.
    rows = [check_coupling(m, COUPLED[m], 8 if m == 2048 else 16) for m in WIDTHS]
    error, unsigned = np.transpose(rows)
    assert error[-1] < 0.7 * error[0]
    assert unsigned[-1] > 1.3 * unsigned[0]
    # Exponents of the record: -.26 and .24; of 24 seeds ours are -.26 and .23.
    for values, column in ((error, 0), (unsigned, 1)):
        known = [COUPLED[m][column] for m in WIDTHS]
        slope, recorded = np.polyfit(np.log(WIDTHS), np.log(np.stack([values, known], 1)), 1)[0]
        assert slope == pytest.approx(recorded, abs=0.1)


@pytest.fixture
def optimized():
    """Compile as users do: the many draws take longer than that."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.mark.slow
@pytest.mark.usefixtures("optimized")
def test_smoothed_network_leaves_its_pseudo_network_at_second_order(x64):
    # LG-32: m = 100: mean |P - P'| 3.24e-3, 3.71e-4, 4.44e-5, 3.74e-6 at eta = .1, .03, .01, .003,
    # one network and 6000 draws. Eight of ours, 1000 draws each: logarithms of single networks have
    # standard deviations of .14, .17, .23, .27, the means of eight .05 to .1. Over 24 networks ours
    # are 3.18e-3, 3.65e-4, 4.45e-5, 4.28e-6: for other seeds, below 1e-3 to leave the factors.
    m = 100
    net = ThreeLayer(4, m)
    objective = ThreeLayerObjective(net, sigma_w=m**-0.9, sigma_v=m**-0.51)
    etas = jnp.array([0.1, 0.03, 0.01, 0.003])

    @jax.jit
    def gaps(params, x, keys):
        delta = rank_one(params, x, 5 / m, 1 / m)

        def one(key):
            draw = objective.draw(params, key=key)
            still = objective.weights(params, Movement(0 * params.W, 0 * params.V), draw)
            pattern = sign_pattern(net, still, x)

            def gap(eta):
                moved = objective.weights(params, Movement(eta * delta.W, eta * delta.V), draw)
                return jnp.abs(net(moved, x) - pseudo_output(net, moved, x, pattern))[0]

            return jax.vmap(gap)(etas)

        return jnp.mean(jax.lax.map(one, keys), axis=0)

    rows = []
    for seed in range(8):
        params, x = (jax.tree.map(lambda leaf: leaf.astype(float), p) for p in start(m, seed)[1:])
        rows.append(np.log(gaps(params, x, jr.split(jr.key(2000 + seed), 1000))))
    found, exponents = np.mean(rows, axis=0), np.diff(rows) / np.diff(np.log(etas))
    measured = np.log([3.24e-3, 3.71e-4, 4.44e-5, 3.74e-6])
    assert np.all(np.abs(found - measured) < np.log([1.3, 1.3, 1.4, 1.6]))
    # On record 1.80, 1.93, 2.06, the last with 8 % of sampling error in one of its values; over 24
    # networks ours are 1.80, 1.92, 1.94, with standard deviations of .05 to .09 for one: 3.5 and
    # more of those of eight are left (5e-4).
    found = exponents.mean(axis=0)
    assert np.all(np.abs(found - [1.80, 1.93, 2.06]) < [0.1, 0.12, 0.23])
    assert found[0] < found[1] < 2.1


@pytest.mark.slow
def test_a_good_pseudo_network_is_a_direction_of_negative_curvature():
    # LG-33: m = 256, N = 100, target sin(3 x1) cos(2 x2): change / eta = -0.463 .. -0.493, constant
    # in eta, and <L', G*> = -0.862. Here 150 pairs of +-Sigma.
    net = ThreeLayer(4, 256)
    params, x = net.init(key=jr.key(3)), data.sphere(100, 4, key=jr.key(4))
    y = jnp.sin(3 * x[:, 0]) * jnp.cos(2 * x[:, 1])
    resid = net(params, x) - y
    star, G = fitted_pseudo_network(net, params, x, -resid)
    assert float(jnp.mean((G + resid) ** 2)) < 0.1 * float(jnp.mean(resid**2))
    objective = ThreeLayerObjective(
        net, loss="half-squared", sigma_w=0, sigma_v=0, lam_w=0, lam_v=0
    )
    zero = Movement(jnp.zeros_like(params.W), jnp.zeros_like(params.V))
    base = objective.data_loss(params, (x, y), 1.0)

    def change(signs, eta):
        step = Movement(W=eta**0.5 * star.W, V=eta**0.5 * star.V)
        still = Draw(*zero, signs=signs)
        moved = objective.weights(params, step, still)
        other = objective.weights(params, step, still._replace(signs=-signs))
        losses = [objective.data_loss(end, (x, y), 1.0) for end in (moved, other)]
        return (losses[0] + losses[1]) / 2 - base

    mean = jax.jit(lambda eta, s: jnp.mean(jax.lax.map(lambda row: change(row, eta), s)) / eta)
    signs = jr.rademacher(jr.key(5), (150, 256), dtype=jnp.float32)
    rates = [float(mean(eta, signs)) for eta in (0.03, 0.01)]
    slope = float(jnp.mean(resid * G))
    assert slope < rates[0] < 0.3 * slope  # the cross terms take part of the descent, not all
    assert rates[0] == pytest.approx(rates[1], rel=0.1)


def fitted_pseudo_network(net, params, x, target):
    """W* and V* whose quadratic pseudo network is the target, by Adam, and its outputs."""
    pattern, keys = sign_pattern(net, params, x), jr.split(jr.key(6))
    shapes = (params.W.shape, params.V.shape)
    free = Movement(*(0.3 / 16 * jr.normal(k, s) for k, s in zip(keys, shapes, strict=True)))

    def output(free):
        return pseudo_output(net, with_hidden(params, *free), x, pattern, biases=0)

    optimizer = optax.adam(3e-3)

    def step(carry, _):
        free, state = carry
        slope = jax.grad(lambda f: jnp.mean((output(f) - target) ** 2))(free)
        with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
            update, state = optimizer.update(slope, state)
        return (optax.apply_updates(free, update), state), None

    (free, _), _ = jax.lax.scan(step, (free, optimizer.init(free)), None, length=800)
    return Movement(*jax.tree.leaves(free)), output(free)


@pytest.mark.slow
def test_a_random_step_that_descends_certifies_negative_curvature(x64):
    # LG-34: e = 1.4901 and the least eigenvalue -2.9801 = -2 e, at eta -> 0.
    def f(v):
        return (v[0] ** 2 - 3 * v[1] ** 2) / 2 + 0.1 * jnp.sum(jnp.sin(v))

    v, eta = jnp.array([0.3, -0.2]), 1e-6
    step = jnp.sqrt(eta) * jnp.array([0.0, 1.0])
    e = -float((f(v + step) + f(v - step)) / 2 - f(v)) / eta
    least = extreme_eigenvalues(f, v, key=jr.key(0)).smallest
    assert e == pytest.approx(1.4901, abs=1e-4)
    assert least == pytest.approx(-2.9801, abs=1e-4)
    assert least <= -e
    assert least == pytest.approx(-2 * e, abs=1e-4)
