# SPDX-License-Identifier: Apache-2.0
import jax
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayer
from unlazy.papers.allenzhu_li_liang2019.figures import samples
from unlazy.papers.allenzhu_li_liang2019.figures.learners import BySums, network_learner
from unlazy.papers.shared.grids.learner import MeanSquare, Samples


def test_written_as_sums_the_network_and_its_gradient_are_the_same():
    net = BiasedTwoLayer(samples.INPUTS, 40)
    params, x = net.init(key=jr.key(0)), jr.normal(jr.key(1), (7, samples.INPUTS))
    np.testing.assert_allclose(BySums(net)(params, x), net(params, x), rtol=1e-5, atol=1e-5)
    batch = Samples(x, jr.normal(jr.key(2), (7,)))
    found, expected = (jax.grad(MeanSquare(model))(params, batch) for model in (BySums(net), net))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected
    )


@pytest.mark.parametrize(
    ("backend", "method", "by_sums"),
    [("cpu", "2layer", False), ("gpu", "2layer", True), ("gpu", "3layer", False)],
)
def test_two_layers_are_trained_as_sums_on_an_accelerator(monkeypatch, backend, method, by_sums):
    splits = [samples.draw("composed-sines", 20, 10, 10, seed=0)]
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    learner = network_learner(method, 16, splits, (0,))
    assert isinstance(learner.loss, MeanSquare)
    assert isinstance(learner.loss.model, BySums) == by_sums
    # A program that was compiled for one such network serves all of its size.
    assert hash(learner.loss) == hash(network_learner(method, 16, splits, (0,)).loss)
