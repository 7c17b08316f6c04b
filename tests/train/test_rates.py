# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import activation
from unlazy.data import sphere
from unlazy.kernels import taylor_kernel
from unlazy.nets import TwoLayer
from unlazy.papers.nichani2022 import ExpansionSetting, TrialData, fit_expansion
from unlazy.train import largest_learning_rate

D, N, M, RANK = 5, 24, 16, 6
NET = TwoLayer(D, M, activation("sigmoid", shift=1.5), init="sphere")


@pytest.mark.parametrize("lam3", [0.0, 500.0])  # the first or the second condition binds
def test_linear_descent_converges_just_below_the_limit_and_diverges_just_above(lam3, x64):
    params = NET.init(key=jr.key(1))
    x = sphere(N, D, radius=math.sqrt(D), key=jr.key(2))
    K = taylor_kernel(NET, params, x, order=1)
    limit = largest_learning_rate(K, rank=RANK, lam3=lam3)
    top, tail = np.linalg.eigvalsh(np.asarray(K) / N)[[-1, -RANK - 1]]
    assert limit == pytest.approx(min(1 / top, 1 / ((1 + lam3) * tail)), rel=1e-9)
    assert ((1 + lam3) * tail > top) == (lam3 > 0)
    stacked = jax.tree.map(lambda leaf: leaf[None], params)

    def last(factor):
        runs = fit_expansion(
            NET,
            stacked,
            TrialData(x[None], jnp.sin(x[None, :, 0])),
            settings=[ExpansionSetting(lam3=lam3, quadratic=False)],
            rank=RANK,
            learning_rate=factor * limit,
            steps=2000,
            record_every=1000,
            key=jr.key(0),
        )
        return runs.train[0, 0, 0], runs.train[0, 0, -1]

    start, end = last(0.98)
    assert end < start
    assert last(1.02)[1] > 1e6 * start


@pytest.mark.slow
def test_the_limit_at_the_reduced_size_lies_where_it_was_found():
    # NB-20: d = 30, n = 164, m = 1000, b = 1.5: lambda_max = 0.0427, 20 converged and 40 diverged.
    net = TwoLayer(30, 1000, activation("sigmoid", shift=1.5), init="sphere")
    x = sphere(164, 30, radius=math.sqrt(30), key=jr.key(3))
    K = taylor_kernel(net, net.init(key=jr.key(4)), x, order=1)
    assert 1 / largest_learning_rate(K) == pytest.approx(0.0427, rel=0.1)
    assert 20 < largest_learning_rate(K, rank=31, lam3=10.0) < 40


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`rank` must be given where `lam3` is not 0"):
        largest_learning_rate(np.eye(2), lam3=1.0)
    with pytest.raises(ValueError, match="`lam3` must be at least 0"):
        largest_learning_rate(np.eye(2), rank=1, lam3=-1.0)
    with pytest.raises(ValueError, match="`K` must be symmetric"):
        largest_learning_rate(np.array([[1.0, 2.0], [0.0, 1.0]]))
    assert largest_learning_rate(np.zeros((2, 2))) == math.inf
