# SPDX-License-Identifier: Apache-2.0
import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.nets import TwoLayer
from unlazy.papers.nichani2022 import RegularizedRisk, risk_smoothness

D, M, N = 4, 10, 12


@functools.cache
def problem(covariance, sizes=1.0, **options):
    """A risk in float64; `sizes` scales the inputs, whose norms are unlike."""
    keys = jr.split(jr.key(0), 4)
    with jax.enable_x64(True):
        net = TwoLayer(D, M, ul.activation("sigmoid", shift=1.5), "sphere")
        x, other = (ul.data.sphere(n, D, radius=math.sqrt(D), key=key)
                    for n, key in ((N, keys[1]), (30, keys[2])))  # fmt: skip
        x = x * jnp.linspace(1.0, sizes, N)[:, None]
        geometry = ul.escape.directions(
            net,
            net.init(key=keys[0]),
            x,
            rank=3,
            covariance=covariance,
            unlabelled=other if covariance == "unlabelled" else None,
        )
        return RegularizedRisk.of(geometry, 3 * jr.normal(keys[3], (N,)), **options)


def movements(radius):
    """Two dense movements of that norm, and two of a single row."""
    W = np.random.default_rng(1).normal(size=(4, M, D))
    W[2:, 1:] = 0
    return radius * (W / np.linalg.norm(W, axis=(1, 2), keepdims=True)).reshape(4, -1)


SETTINGS = [
    ("data", 2.0, {"network": True, "strengths": (0.5, 0.2, 3.0, 1e-3)}),
    ("unlabelled", 1.0, {"strengths": (0.5, 0.2, 3.0, 1e-3)}),
    ("data", 0.5, {"loss": "squared", "strengths": (0, 0, 0, 0)}),
]


@pytest.mark.parametrize(("covariance", "sizes", "options"), SETTINGS)
def test_no_curvature_and_no_change_of_it_exceeds_its_constant(covariance, sizes, options, x64):
    risk = problem(covariance, sizes, **options)
    hessian = jax.hessian(lambda w: risk(w.reshape(M, D)))
    both = jax.jit(jax.vmap(lambda w: jax.jvp(hessian, (w,), (w / jnp.linalg.norm(w),))))
    for radius in (0.5, 4.0):
        forms, slopes = both(jnp.asarray(movements(radius)))
        smooth = risk_smoothness(risk, radius)
        curvature = np.linalg.norm(np.asarray(forms), 2, axis=(1, 2)).max()
        # A bound, and one that says something.
        assert 0.01 * smooth.gradient < curvature <= smooth.gradient
        assert np.linalg.norm(np.asarray(slopes), 2, axis=(1, 2)).max() <= smooth.hessian


@pytest.mark.parametrize("covariance", ["data", pytest.param("exact", marks=pytest.mark.slow)])
def test_the_curvatures_of_the_first_two_penalties_are_reached(covariance, x64):
    # The constant rises by twice the largest eigenvalue, which the dense form has as well.
    plain = risk_smoothness(problem(covariance), 1.0).gradient
    for j, name in enumerate(("r1", "r2")):
        strengths = tuple(float(i == j) for i in range(4))
        risk = problem(covariance, strengths=strengths)
        penalty = getattr(risk.geometry, name)
        H = jax.jit(jax.hessian(lambda w, f=penalty: f(w.reshape(M, D))))(jnp.zeros(M * D))
        rise = risk_smoothness(risk, 1.0).gradient - plain
        assert rise == pytest.approx(np.linalg.eigvalsh(np.asarray(H))[-1], rel=1e-8)


def test_the_constants_of_the_last_penalty_are_reached_by_a_single_row(x64):
    # |w|^8 has second derivative 56 |w|^6 and third derivative 336 |w|^5 along w.
    radius, lam = 1.7, 0.3
    plain = risk_smoothness(problem("data"), radius)
    smooth = risk_smoothness(problem("data", strengths=(0, 0, 0, lam)), radius)
    assert smooth.gradient - plain.gradient == pytest.approx(lam * 56 * radius**6, rel=1e-12)
    assert smooth.hessian - plain.hessian == pytest.approx(lam * 336 * radius**5, rel=1e-12)


def test_a_wide_network_is_as_smooth_as_its_loss_and_its_tangent_features_make_it(x64):
    # With radius to 0 and m large, c_2 mean |grad f|^2 is left: the trace of the kernel over n.
    net = TwoLayer(D, 8000, ul.activation("sigmoid", shift=1.5), "sphere")
    x = ul.data.sphere(5, D, radius=2.0, key=jr.key(1))
    params = net.init(key=jr.key(0))
    risk = RegularizedRisk.of(ul.escape.directions(net, params, x, rank=2), x[:, 0], network=True)
    trace = np.trace(np.asarray(ul.kernels.taylor_kernel(net, params, x, x, order=1)))
    # The rest is at most |l'| |x|^2 sup |s''| / sqrt m = 4 / 89 * 0.0962 = 0.0044.
    found = risk_smoothness(risk, 1e-6).gradient - float(trace) / 5
    assert 0 < found < 0.0044


def test_unbounded_derivatives_and_empty_balls_are_refused():
    with pytest.raises(ValueError, match="`radius` must be a positive number, got radius=0"):
        risk_smoothness(problem("data"), 0)
    net = TwoLayer(D, M, ul.activation("exp"), "sphere")
    x = ul.data.sphere(N, D, key=jr.key(1))
    geometry = ul.escape.directions(net, net.init(key=jr.key(0)), x, rank=2)
    with pytest.raises(ValueError, match="bounded derivative of order 1, got 'exp'"):
        risk_smoothness(RegularizedRisk.of(geometry, x[:, 0], network=True), 1.0)
