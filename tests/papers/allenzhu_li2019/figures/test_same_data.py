# SPDX-License-Identifier: Apache-2.0
"""The network and all dot-product kernels on the same samples of the class hard for kernels."""

import math

import jax.numpy as jnp
import jax.random as jr
import pytest

from unlazy import data
from unlazy.certificates import dot_product as dot_product_certificate
from unlazy.nets import ResNet3
from unlazy.papers.shared.grids.learner import MeanSquare, Samples
from unlazy.train import fit_grid

ALPHA, COORDINATES = 0.3, (0, 1, 2)


def samples(n, key):
    f = data.target("hard-parities", coordinates=COORDINATES, alpha=ALPHA)
    x = data.cube(n, 20, key=key)
    return Samples(x, jnp.asarray(f(x)))


def best_error(train, test, mode, *, key):
    """The best lane by the test set, in units of k alpha^2, which is what F alone leaves."""
    net = ResNet3(20, 100, 3, init="experiment")
    key_net, key_order = jr.split(key)
    result = fit_grid(
        MeanSquare(net),
        net.init(key=key_net),
        train,
        learning_rates=(0.01, 0.02, 0.05, 0.1),
        weight_decays=(5e-4, 2e-3, 5e-3),
        epochs=200,
        batch_size=50,
        drops={100: 0.1},
        trained=mode,
        evaluate={"test": test},
        keep="none",
        key=key_order,
    )
    return result.table()["test"].min() / (3 * ALPHA**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "risk", "errors"),
    [(300, 0.741, {"all": 0.0011, "hidden": 0.013}), (500, 0.586, {"all": 0.0002})],
)
def test_the_resnet_learns_from_samples_that_no_dot_product_kernel_can_learn_from(n, risk, errors):
    # RN-59b, d = 20, k = 3: one seed there, another here. Three of our seeds gave .0009 to .0010
    # and .007 to .013 at n = 300, one .0002 at n = 500: at most five times the record.
    keys = jr.split(jr.key(59), 3)
    train, test = samples(n, keys[0]), samples(2000, keys[1])
    certificate = dot_product_certificate(train.x, sets=[COORDINATES], alpha=ALPHA)
    # Its mean over all sets is n / C(20, 3) exactly; one set is a few hundredths off.
    assert certificate.min_ratio == pytest.approx(1 - n / math.comb(20, 3), abs=0.05)
    assert certificate.min_ratio == pytest.approx(risk, abs=0.05)
    for mode, error in errors.items():
        found = best_error(train, test, mode, key=keys[2])
        assert found < 5 * error
        assert found < certificate.min_ratio / 10
