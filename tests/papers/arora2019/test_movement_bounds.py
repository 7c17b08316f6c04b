# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import labels
from unlazy.kernels import relu_gram
from unlazy.nets import TwoLayer
from unlazy.papers.arora2019 import (
    gram_descent,
    lazy_certificate,
    movement_bound,
    perturbation_bounds,
    worst_labels,
)
from unlazy.papers.arora2019.movement_bounds import movement_terms

SIZES = {"smallest_eigenvalue": 0.2, "init_scale": 1e-6, "delta": 0.1}


def test_the_error_terms_have_the_exponents_of_the_lemma():
    # At a scale so small that u(0) hardly adds to the residual: O(kappa) for the first term, the
    # others fall with m kappa^2, the slowest like its fourth root.
    base = movement_bound(40.0, 10, 10**40, **SIZES)
    wide = movement_bound(40.0, 10, 16 * 10**40, **SIZES)
    large = movement_bound(40.0, 10, 10**40, **SIZES | {"init_scale": 4e-6})
    assert base.leading == math.sqrt(40.0)
    assert wide.initial_output == base.initial_output
    assert large.initial_output / base.initial_output == pytest.approx(4)
    assert base.feature_drift / wide.feature_drift == pytest.approx(2)
    assert base.feature_drift / large.feature_drift == pytest.approx(2, rel=1e-4)
    assert base.residual_drift / wide.residual_drift == pytest.approx(4)
    assert base.residual_drift / large.residual_drift == pytest.approx(4, rel=1e-3)
    assert base.initial_gram / wide.initial_gram == pytest.approx(4, rel=1e-6)
    # Theorem 5.1 takes kappa = lambda_0 delta / n, so that the first term is at most a constant.
    theorem = movement_bound(40.0, 10, 10**40, **SIZES | {"init_scale": 0.2 * 0.1 / 10})
    assert theorem.initial_output < 1
    assert theorem.value == pytest.approx(theorem.leading + theorem.initial_output, rel=1e-3)


def test_the_terms_are_those_of_the_perturbation_bounds():
    # Lemma 5.3 once more, from Lemmas C.1 to C.3 by hand; labels of another norm than sqrt(n).
    n, m, lam0, kappa, delta, norm = 7, 10**30, 0.15, 0.01, 0.06, 0.5
    output = math.sqrt(n) * kappa / math.sqrt(2 * delta / 3)
    lemmas = perturbation_bounds(
        n,
        m,
        residual=norm + output,
        smallest_eigenvalue=lam0,
        init_scale=kappa,
        delta=delta / 3,
    )
    bound = movement_bound(
        3.0, n, m, smallest_eigenvalue=lam0, init_scale=kappa, delta=delta, label_norm=norm
    )
    assert bound.initial_output == pytest.approx(math.sqrt(n) * output / lam0)
    assert bound.feature_drift == pytest.approx(lemmas.feature_drift * norm / lam0)
    switching = 2 * math.sqrt(n) * lemmas.feature_drift**2
    deviation = lemmas.initial_gram + lemmas.gram_drift + switching
    assert bound.deviation == pytest.approx(deviation)
    drift = math.sqrt(n) * deviation * (norm + output) / (lam0 / 4) / lam0
    assert bound.residual_drift == pytest.approx(drift)
    assert bound.neuron_movement == lemmas.neuron_movement
    assert bound.value == pytest.approx(math.sqrt(3.0) + bound.errors)


def test_the_bound_is_infinite_where_the_network_is_too_narrow():
    narrow, wide = (movement_bound(40.0, 10, m, **SIZES) for m in (10**20, 10**32))
    assert not narrow.holds
    assert narrow.value == math.inf
    assert narrow.residual_drift < math.inf  # the terms are still there to look at
    assert wide.holds
    assert wide.deviation <= wide.largest_deviation == pytest.approx(0.15)


def test_the_term_of_the_initial_kernel_is_attained_by_the_worst_labels():
    # y^T H^-1 H(0) H^-1 y <= M (1 + h/lambda_0) with equality if H(0) - H = h v v^T along the last
    # eigenvector and y on it; random deviations of the same norm stay below.
    rng = np.random.default_rng(3)
    x = rng.standard_normal((9, 4))
    H = np.asarray(relu_gram(x / np.linalg.norm(x, axis=1, keepdims=True)))
    v, lam0, h = worst_labels(H), float(np.linalg.eigvalsh(H)[0]), 0.03

    def limit(y):
        known = {"n": 9, "label_norm": 1.0, "deviation": 0.0, "band": 0.0, "initial_output": 0.0}
        bound = movement_terms(
            energy=labels.energy(H, y),
            smallest_eigenvalue=lam0,
            rate=lam0 / 2,
            initial_gram=h,
            residual=1.0,
            neuron_movement=1.0,
            **known,
        )
        return bound.value

    def moved(y, E):
        alpha = np.linalg.solve(H, y)
        return math.sqrt(alpha @ (H + E) @ alpha)

    assert moved(v, h * np.outer(v, v)) == pytest.approx(limit(v), rel=1e-9)
    for _ in range(20):
        E, y = rng.standard_normal((9, 9)), rng.standard_normal(9)
        E = E + E.T
        assert moved(y, h * E / np.linalg.norm(E, 2)) <= limit(y)


@pytest.mark.parametrize("init", ["antisymmetric", "gaussian"])
@pytest.mark.parametrize("size", [0.05, 0.4])
def test_real_networks_move_less_than_the_bound_of_their_start(init, size):
    # Two nearly orthogonal samples and 200000 neurons, wide enough for the certificate. The
    # Gaussian start has an output of its own, which training must fit away.
    x = jnp.array([[1.0, 0.0, 0.0], [0.2, 0.6, math.sqrt(0.6)]])
    y = size * jnp.array([1.0, -0.5])
    net = TwoLayer(3, 200_000, init=init)
    params = net.init(key=jax.random.key(11))
    proof = lazy_certificate(params, x, y)
    assert proof.holds
    history = gram_descent(net, params, x, y, learning_rate=proof.learning_rate, steps=60)
    moved = float(np.linalg.norm(np.asarray(history.params.W, np.float64) - params.W))
    assert moved < proof.movement.value
    if init == "antisymmetric":
        assert proof.movement.initial_output < 1e-3
        assert moved == pytest.approx(proof.movement.leading, rel=0.02)
    else:  # the leading term alone would be wrong
        assert moved > proof.movement.leading


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"energy": math.inf}, "`energy` must be finite and >= 0, got energy=inf"),
        ({"energy": -1.0}, "`energy` must be finite and >= 0"),
        ({"m": 0}, "`m` must be an integer >= 1"),
        ({"delta": 1.0}, "`delta` must be a failure probability"),
        ({"label_norm": 0.0}, "`label_norm` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(change, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        movement_bound(**{"energy": 1.0, "n": 5, "m": 10} | SIZES | change)
