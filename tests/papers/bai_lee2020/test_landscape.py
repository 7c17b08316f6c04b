# SPDX-License-Identifier: Apache-2.0
import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.curvature import extreme_eigenvalues
from unlazy.escape import regularizer
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020 import (
    QuadraticRisk,
    curvature_bound,
    localization_radius,
    optimality_bound,
)
from unlazy.papers.bai_lee2020.landscape import REGULARIZER_CONSTANT

SIZES = [(4, 2, 1), (6, 3, 5), (10, 4, 11), (38, 5, 6)]  # m, d, n: each compiles once
LOSSES = ["logistic", "pseudo-huber"]


def draws(small, size, loss, strength, count):
    m, d, n = size
    for seed in range(count):
        scale = 10 ** np.random.default_rng(seed).uniform(-1, 1)
        *_, risk, W, W_star = small(seed, m=m, d=d, n=n, loss=loss, strength=strength)
        yield risk, scale * W, W_star


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", SIZES[1:2])
def test_the_mean_curvature_over_signs_is_the_stated_one(small, x64, size, loss):
    """BL-T15, the identity, by enumeration of all signs of the direction."""
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=size[0])))[:, :, None]
    for risk, W, W_star in draws(small, size, loss, 0.03, 6):
        directions = jnp.asarray(signs) * W_star[None]
        forms = jax.vmap(lambda V: jnp.sum(V * risk.hvp(W, V)))(directions)  # noqa: B023
        sides = curvature_bound(risk, W, W_star)
        scale = float(jnp.mean(jnp.abs(forms)))
        assert sides.curvature == pytest.approx(float(jnp.mean(forms)), abs=1e-12 * scale)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", SIZES)
def test_no_draw_violates_the_landscape_inequality(small, size, loss):
    """BL-T15, 8 x 75 draws: deterministic, by convexity of the loss. With and without penalty."""
    tightest = np.inf
    for strength, count in ((0.0, 38), (0.01, 37)):
        for risk, W, W_star in draws(small, size, loss, strength, count):
            sides = curvature_bound(risk, W, W_star)
            size_of = abs(sides.curvature) + abs(sides.bound)
            if size_of == 0:  # every sigma'' is zero
                continue
            # The bound subtracts losses of size 1: that is the scale of its rounding.
            rounding = 1e-14 * (1 + size_of + abs(sides.regularizer_bound))
            assert np.isfinite(size_of)
            assert sides.curvature <= sides.bound + rounding
            assert sides.bound <= sides.regularizer_bound + rounding
            tightest = min(tightest, (sides.bound - sides.curvature) / size_of)
    assert tightest < 0.1  # not vacuous


def test_the_inequality_is_an_equality_where_the_comparator_is_the_point(small, x64):
    *_, risk, W, _ = small()
    sides = curvature_bound(risk, W, W)
    assert sides.curvature == pytest.approx(sides.bound, rel=1e-12)


def test_the_slack_is_within_its_bound_and_falls_like_one_over_the_width(small, x64):
    ratios, widths, values = [], 2 ** np.arange(3, 12, 2), []
    for m in widths:
        *_, risk, W, W_star = small(int(m), m=int(m), d=4, n=40)
        sides = curvature_bound(risk, W, W_star)
        ratios.append(sides.slack / sides.slack_bound)
        values.append(sides.slack)
        products = risk.S**2 * (risk.x @ W.T) ** 2 * (risk.x @ W_star.T) ** 2
        T = jnp.mean(risk.loss.derivative(2)(risk.outputs(W), risk.y) * products.sum(axis=1))
        assert sides.slack == pytest.approx(float(T), rel=1e-12)
    assert 0 < min(ratios) <= max(ratios) <= 1
    (slope, _), covariance = np.polyfit(np.log(widths), np.log(values), 1, cov=True)
    error = float(np.sqrt(covariance[0, 0]))
    assert error < 0.15
    assert slope == pytest.approx(-1, abs=4 * error)


def test_the_bound_on_the_slack_is_attained(x64):
    """One sample, one active neuron moving along it, at a label of largest curvature."""
    net = TwoLayer(2, 2, "relu3", "symmetric")
    params = TwoLayerParams(W=jnp.array([[1.0, 0.0], [-1.0, 0.0]]), a=jnp.array([1.0, -1.0]))
    W = jnp.array([[2.0, 0.0], [0.0, 0.0]])
    # f = (1 / (2 sqrt 2)) 4, where pseudo-Huber is most curved.
    y = jnp.array([np.sqrt(2.0)])
    risk = QuadraticRisk.of(net, params, jnp.array([[1.0, 0.0]]), y, loss="pseudo-huber")
    sides = curvature_bound(risk, W, 3 * W)
    assert sides.slack == pytest.approx(sides.slack_bound, rel=1e-12)


def test_the_regularizer_constant_bounds_every_draw_and_is_sharp(x64):
    """BL-T16: 4000 draws, half with W* parallel to W; the scalar case attains C at 42/5."""
    assert pytest.approx(8297.856, rel=1e-12) == REGULARIZER_CONSTANT

    def ratio(key):
        keys = jr.split(key, 5)
        W, free = (jr.normal(k, (3, 2)) for k in keys[:2])
        W_star = jnp.where(jr.bernoulli(keys[2]), W, free)
        W_star = W_star * 10 ** jr.uniform(keys[3], minval=-1.5, maxval=0.5)
        curvature = regularizer.curvature(W, W_star)
        return (curvature - 5 * regularizer(W)) / regularizer(W_star)

    ratios = np.asarray(jax.vmap(ratio)(jr.split(jr.key(0), 4000)))
    assert np.isfinite(ratios).all()
    assert ratios.max() <= REGULARIZER_CONSTANT
    one, p = jnp.ones((1, 1)), 42 / 5
    top = regularizer.curvature(one, one / np.sqrt(p)) - 5 * regularizer(one)
    assert float(top / regularizer(one / np.sqrt(p))) == pytest.approx(REGULARIZER_CONSTANT)


@pytest.mark.parametrize("strength", [0.0, 0.01])
def test_the_optimality_bound_holds_at_any_point(small, x64, getkey, strength):
    """BL-23 for points near and far from stationary, against several comparators."""
    for scale in (0.1, 0.5, 1.0):
        *_, risk, W, W_star = small(round(10 * scale), strength=strength)
        W = scale * W
        ends = extreme_eigenvalues(risk, W, key=getkey())
        for factor in (0.3, 1.0, 2.0):
            bound = optimality_bound(
                risk, W, factor * W_star, smallest_eigenvalue=ends.smallest, proved=True
            )
            assert float(risk(W)) <= bound
            weaker = optimality_bound(risk, W, factor * W_star, smallest_eigenvalue=ends.smallest)
            assert bound <= weaker


def test_a_radius_needs_a_penalty(small):
    *_, risk, _, _ = small()
    with pytest.raises(ValueError, match=r"`risk\.strength` must be a positive number"):
        localization_radius(risk)
