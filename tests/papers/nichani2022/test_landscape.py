# SPDX-License-Identifier: Apache-2.0
import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.curvature import extreme_eigenvalues
from unlazy.escape.signs import all_signs
from unlazy.nets import TwoLayer
from unlazy.papers.nichani2022 import (
    RegularizedRisk,
    certify_good,
    good_landscape,
    theory_strengths,
)

EPSILON = 0.05


@functools.cache
def setting(m, d=6, n=80, unlabelled=400, seed=0, covariance="unlabelled"):
    """The problem of NB-36: a risk at the theory's strengths, and its good solution."""
    keys = jr.split(jr.key(seed), 5)
    net = TwoLayer(d, m, ul.activation("sigmoid", shift=1.5), "sphere")
    x, other = (ul.data.sphere(k, d, radius=math.sqrt(d), key=key)
                for k, key in ((n, keys[0]), (unlabelled, keys[1])))  # fmt: skip
    target = ul.data.target("linear-plus-square", beta=ul.data.sphere(1, d, key=keys[2])[0])
    params = net.init(key=keys[3])
    if covariance == "exact":
        geometry = ul.escape.directions(net, params, x, 1, covariance="exact")
    else:
        geometry = ul.escape.directions(
            net, params, x, 1, covariance="unlabelled", unlabelled=other
        )
    best = ul.papers.nichani2022.good_solution(geometry, target, key=keys[4])
    strengths = theory_strengths(m, d, 1, accuracy=EPSILON, r4=best.penalties[3])
    return RegularizedRisk.of(geometry, target(x), strengths=strengths), best


def small():
    """A risk in float64 of few parameters."""
    with jax.enable_x64(False):
        risk, best = setting(8, d=4, n=12, unlabelled=30)
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), risk), best


def descended(risk, W, steps=300, learning_rate=2.0):
    return jax.lax.fori_loop(0, steps, lambda _, W: W - learning_rate * risk.gradient(W), W)


def excesses(m, seed=0):
    """The left side over epsilon at 7 points of gradient descent and 2 random ones."""
    risk, best = setting(m, seed=seed)
    points = [jnp.zeros((m, 6))]
    descend = jax.jit(descended)
    for _ in range(6):
        points.append(descend(risk, points[-1]))
    scales = {100: 0.1, 101: m**-0.25}
    points += [scale * jr.normal(jr.key(key), (m, 6)) for key, scale in scales.items()]
    return [good_landscape(risk, W, best.dW, best.low.dW).excess / EPSILON for W in points]


@pytest.mark.slow
def test_the_inequality_holds_along_descent_and_at_random_points():
    # NB-36, m = 500: from -21.1 to +.99 with signs drawn, for one problem. Its mean over the signs
    # is exact here, and the constant differs between problems: at the end -3 to 3.
    values = excesses(500)
    assert max(values) <= 3
    assert min(values) == pytest.approx(-20, abs=5)
    assert values[0] < values[2] < values[4]


@pytest.mark.slow
def test_the_inequality_holds_with_room_to_spare_for_wider_networks():
    # NB-36, m = 2000: from -19.4 to -3.4.
    values = excesses(2000)
    assert max(values) <= 1
    assert min(values) == pytest.approx(-20, abs=5)


@pytest.mark.slow
def test_the_inequality_holds_for_very_wide_networks():
    # NB-36, m = 8000, which has no result on record: at most 3 is what to assert. Found here: -17.6
    # to -12.7, so that 0 leaves room.
    values = excesses(8000)
    assert max(values) <= 0
    assert min(values) == pytest.approx(-20, abs=5)


@pytest.mark.slow
def test_the_mean_over_signs_is_that_of_all_of_them(x64):
    risk, best = small()
    W = jr.normal(jr.key(1), (8, 4))
    sides = good_landscape(risk, W, best.dW, best.low.dW)
    signs = jnp.asarray(all_signs(8))
    form = jax.jit(jax.vmap(lambda s: risk.hessian_form(W, s[:, None] * best.dW)))
    assert sides.curvature == pytest.approx(float(jnp.mean(form(signs))), rel=1e-9)
    assert sides.curvature_error == 0
    drawn = good_landscape(risk, W, best.dW, best.low.dW, draws=64, key=jr.key(2))
    assert drawn.curvature == pytest.approx(sides.curvature, abs=4 * drawn.curvature_error)
    assert drawn.curvature_error > 0


def test_the_mean_over_signs_of_the_network_is_that_of_all_of_them(x64):
    # By the dense Hessian of automatic differentiation, at a movement of the size of the start.
    risk, best = small()
    risk = dataclasses.replace(risk, network=True)
    W = jr.normal(jr.key(1), (8, 4))
    sides = good_landscape(risk, W, best.dW, best.low.dW)
    H = jax.jit(jax.hessian(lambda w: risk(w.reshape(8, 4))))(W.reshape(-1))
    moved = (all_signs(8)[:, :, None] * np.asarray(best.dW)).reshape(-1, 32)
    forms = np.einsum("si,ij,sj->s", moved, np.asarray(H), moved)
    assert sides.curvature == pytest.approx(forms.mean(), rel=1e-9)
    assert sides.risk == pytest.approx(float(risk(W)), rel=1e-12)


@pytest.mark.slow
def test_the_inequality_holds_for_the_network_where_it_is_wide_enough():
    # The term that the lemma hides has the gap between network and expansion, which closes with the
    # width: along descent the left side over epsilon goes from -20 to +11 at m = 500 and from -19
    # to -5 at m = 2000. Here after 600 steps: -2.7 and -12.6.
    ends = []
    for m in (500, 2000):
        risk, best = setting(m)
        risk = dataclasses.replace(risk, network=True)
        W = jax.jit(functools.partial(descended, steps=600))(risk, jnp.zeros((m, 6)))
        ends.append(good_landscape(risk, W, best.dW, best.low.dW).excess / EPSILON)
    assert ends[0] < 0
    assert ends[1] < ends[0] - 5


def test_the_other_terms_are_their_formulas(x64):
    risk, best = small()
    W = jr.normal(jr.key(1), (8, 4))
    sides = good_landscape(risk, W, best.dW, best.low.dW)
    compute = jax.jit(
        lambda W, star, low: (
            jnp.sum(risk.gradient(W) * (W - 2 * low + risk.geometry.low(W))),
            risk(W),
            risk(star),
        )
    )
    found = (sides.along_gradient, sides.risk, sides.risk_star)
    np.testing.assert_allclose(found, compute(W, best.dW, best.low.dW), rtol=1e-10)
    expected = sides.curvature - sides.along_gradient + 2 * sides.risk - 2 * sides.risk_star
    assert sides.excess == pytest.approx(expected, rel=1e-12)


def test_movements_that_would_broadcast_are_refused(no_shape_checker):
    risk, best = setting(8, d=4, n=12, unlabelled=30)
    W = jnp.zeros((8, 4))
    with pytest.raises(ValueError, match=r"`W_L` must have shape \(8, 4\), got W_L.shape=\(1, 4\)"):
        good_landscape(risk, W, best.dW, W[:1])
    with pytest.raises(ValueError, match=r"`W_star` must have shape \(8, 4\)"):
        good_landscape(risk, W, W[:1], W)


@pytest.mark.slow
def test_directions_of_the_whole_sphere_need_draws():
    risk, best = setting(8, d=4, n=12, covariance="exact")
    W = jnp.zeros((8, 4))
    with pytest.raises(ValueError, match="`draws` must be a number of sign draws"):
        good_landscape(risk, W, best.dW, best.low.dW)
    sides = good_landscape(risk, W, best.dW, best.low.dW, draws=8, key=jr.key(0))
    assert math.isfinite(sides.excess)


def test_the_saddle_test_uses_the_tolerances_of_the_theory():
    # NB-24: ||grad|| <= m^(-1/2), lambda_min >= -m^(-3/4).
    m = 8
    risk, _ = setting(m, d=4, n=12, unlabelled=30)
    W = descended(risk, jnp.zeros((m, 4)), steps=200)
    certificate = certify_good(risk, W, key=jr.key(0))
    ends = extreme_eigenvalues(risk, W, key=jr.key(1))
    assert certificate.curvature.smallest == pytest.approx(ends.smallest, abs=1e-9)
    stationary = certificate.gradient_norm <= m**-0.5
    assert (certificate.verdict != "not stationary") == stationary
    assert stationary
    assert certificate.verdict == "second-order stationary"
    assert ends.smallest >= -(m**-0.75)
    strict = certify_good(risk, W, curvature=1e-12, key=jr.key(0))
    assert (strict.verdict == "saddle") == (ends.smallest < -1e-12)
    assert certify_good(risk, W, gradient=1e-12, key=jr.key(0)).verdict == "not stationary"
    assert np.isclose(strict.gradient_tolerance, m**-0.25)
