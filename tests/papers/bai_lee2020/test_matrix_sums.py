# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import TwoLayerParams
from unlazy.papers.bai_lee2020 import matrix_rademacher, rademacher_operator_bound


def symmetric(rng, *shape):
    A = rng.standard_normal(shape)
    return (A + np.swapaxes(A, -1, -2)) / 2


@pytest.mark.parametrize(("m", "n", "d"), [(1, 1, 1), (3, 6, 4), (20, 5, 2)])
def test_indefinite_matrices_are_within_both_bounds_over_all_signs(m, n, d):
    """The exact mean over all 2^n signs, by enumeration; the draws within 5 standard errors."""
    A = symmetric(np.random.default_rng(m), m, n, d, d)
    norms = [
        max(np.linalg.norm(sum(e * a for e, a in zip(eps, row, strict=True)), 2) for row in A)
        for eps in itertools.product((-1.0, 1.0), repeat=n)
    ]
    found = matrix_rademacher(A, draws=200, key=jr.key(0))
    assert np.mean(norms) <= found.sharp < found.paper
    assert found.exact.value == pytest.approx(
        np.mean(norms), abs=5 * found.exact.standard_error + 1e-12
    )
    squares = max(np.linalg.norm(sum(a @ a for a in row), 2) for row in A)
    assert found.variance == pytest.approx(squares, rel=1e-12)
    assert found.paper == pytest.approx(4 * math.sqrt(squares * math.log(2 * m * d)), rel=1e-12)
    # Norms scale, and signs of the matrices change nothing in law.
    assert matrix_rademacher(-3 * A, draws=200, key=jr.key(0)).paper == pytest.approx(
        3 * found.paper
    )


def test_the_features_of_a_network_have_the_bound_that_is_computed_without_them(x64):
    rng = np.random.default_rng(1)
    x, W = rng.standard_normal((7, 3)), rng.standard_normal((4, 3))
    params = TwoLayerParams(
        W=jnp.asarray(np.vstack([W, W])), a=jnp.repeat(jnp.array([1.0, -1.0]), 4)
    )
    second = np.maximum(x @ np.vstack([W, W]).T, 0)
    A = np.einsum("nr,ni,nj->rnij", second, x, x) / 7
    found = matrix_rademacher(A, draws=2, key=jr.key(0)).paper
    assert found == pytest.approx(rademacher_operator_bound(params, x), rel=1e-11)


def test_many_independent_numbers_come_close_to_the_sharp_bound():
    """Sums of 400 signs are normal: the largest of m has mean near sqrt(2 n log(2m))."""
    m, n = 1000, 400
    A = np.random.default_rng(2).choice([-1.0, 1.0], (m, n, 1, 1))
    found = matrix_rademacher(A, draws=30, key=jr.key(1))
    assert found.sharp == pytest.approx(math.sqrt(2 * n * math.log(2 * m)), rel=1e-12)
    assert 0.85 * found.sharp < found.exact.value < found.sharp
    assert found.exact.value < 0.35 * found.paper  # the paper's constant is 2 sqrt 2 times as large


def test_what_is_not_symmetric_is_refused(no_shape_checker):
    A = np.zeros((1, 1, 2, 2))
    A[0, 0, 0, 1] = 1.0
    with pytest.raises(ValueError, match="`A` must hold symmetric matrices, got entries that"):
        matrix_rademacher(A, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`A` must have shape \(m, n, d, d\)"):
        matrix_rademacher(A[0], key=jr.key(0))
