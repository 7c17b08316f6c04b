# SPDX-License-Identifier: Apache-2.0
"""LG-19 (c) and (d), the calculus of Rademacher complexities, on classes with known suprema."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayerParams
from unlazy.papers.allenzhu_li_liang2019 import (
    rademacher_pseudo_two_layer,
    rademacher_pseudo_two_layer_supremum,
)
from unlazy.papers.shared import rademacher_linear

N = 10
SIGNS = np.array(list(itertools.product([-1.0, 1.0], repeat=N)))  # all of them: no sampling error


def inputs(n=N, d=2):
    x = np.random.default_rng(0).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def network(m, d, seed):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        return BiasedTwoLayerParams(
            jnp.asarray(rng.standard_normal((m, d))),
            jnp.asarray(rng.standard_normal(m)),
            jnp.asarray(rng.standard_normal(m)),
        )


def joined(first, second):
    with jax.enable_x64(True):
        return jax.tree.map(lambda one, two: jnp.concatenate([one, two]), first, second)


def ball(count=21, directions=240):
    """Values at the inputs of all linear functions of norm up to 1, on a polar grid."""
    angle = np.linspace(0, 2 * np.pi, directions, endpoint=False)
    radius = np.linspace(0, 1, count)[:, None, None]
    w = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return w.reshape(-1, 2) @ inputs().T


def exact(values):
    """Of a finite class, given by its values at the inputs: the mean over all signs."""
    return float(np.mean(np.max(SIGNS @ values.T, axis=1))) / N


def test_the_complexity_of_a_sum_of_classes_is_the_sum_of_theirs():
    # (c): the neurons of a two-layer pseudo network move independently of each other, so that the
    # class of two networks side by side is the sum of theirs; sign by sign, hence in the mean.
    x, (first, second) = inputs(30, 4), (network(m, 4, m) for m in (7, 12))
    both = joined(first, second)
    xi = np.random.default_rng(3).choice([-1.0, 1.0], 30)
    one, two, all_ = (
        rademacher_pseudo_two_layer_supremum(p, x, xi, tau=0.3) for p in (first, second, both)
    )
    assert all_.value == pytest.approx(one.value + two.value, rel=1e-12)
    np.testing.assert_allclose(all_.dW, np.concatenate([one.dW, two.dW]), rtol=1e-9, atol=1e-12)
    one, two, all_ = (
        rademacher_pseudo_two_layer(p, x, tau=0.3, draws=8, key=jax.random.key(0)).value
        for p in (first, second, both)
    )
    assert all_ == pytest.approx(one + two, rel=1e-12)


def test_sums_of_finite_classes_add_and_unions_do_not_exceed():
    # (c) by enumeration of all f + g, over all signs.
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((5, N)), 2 * rng.standard_normal((8, N))
    total = (first[:, None] + second[None]).reshape(-1, N)
    assert exact(total) == pytest.approx(exact(first) + exact(second), rel=1e-12)
    assert exact(np.concatenate([first, second])) <= exact(first) + exact(second)
    # A single function has none, so that a class may be moved.
    assert exact(first + rng.standard_normal(N)) == pytest.approx(exact(first), rel=1e-12)


def test_the_estimator_of_the_linear_class_is_the_enumeration():
    # 2000 sign vectors against all 1024: five standard errors, below 1e-6. The grid is inscribed.
    x = inputs()
    found = rademacher_linear(x @ x.T, distance=1.0, draws=2000, key=jax.random.key(1))
    assert found.value == pytest.approx(exact(ball()), abs=5 * found.standard_error)


@pytest.mark.parametrize(
    ("act", "slope"),
    [
        (lambda z: np.maximum(z, 0), 1.0),
        (np.abs, 1.0),
        (np.tanh, 1.0),
        (lambda z: np.sin(3 * z), 3.0),
        (lambda z: np.sqrt(1 + (z - 0.4) ** 2), 1.0),  # a loss: it need not vanish at 0
    ],
    ids=["relu", "abs", "tanh", "sin 3z", "pseudo-huber"],
)
def test_a_lipschitz_function_of_a_class_has_at_most_its_complexity(act, slope):
    # (d): Rad(act o F) <= Lip Rad(F), F the linear functions of norm up to 1, over all signs.
    values = ball()
    x = inputs()
    forms = np.einsum("si,ij,sj->s", SIGNS, x @ x.T, SIGNS)
    linear = float(np.mean(np.sqrt(np.maximum(forms, 0)))) / N  # exact, the grid's from below
    assert exact(values) == pytest.approx(linear, rel=2e-4)
    found = exact(act(values))
    assert 0.05 * linear < found <= slope * linear


def test_contraction_is_tight_where_nothing_is_lost():
    # Small functions: tanh is linear there, and no smaller constant would do.
    values = 1e-3 * ball()
    assert exact(np.tanh(values)) == pytest.approx(exact(values), rel=1e-5)
    assert math.isclose(exact(-values), exact(values), rel_tol=1e-12)  # the signs are symmetric
