# SPDX-License-Identifier: Apache-2.0
"""When a lane counts as diverged, and what is kept of the others."""

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.train import fit_grid


def distance(w, batch):
    return jnp.mean((w - batch) ** 2)


def infinite_below_a_half(w, batch):
    return jnp.where(w < 0.5, jnp.inf, distance(w, batch))


def fit(**options):
    start, ones = jnp.zeros(()), jnp.ones(4)
    defaults = {"learning_rates": [0.1], "momentum": 0.0, "epochs": 10}
    return fit_grid(distance, start, ones, **(defaults | options))


def test_a_metric_that_is_infinite_on_the_way_is_no_divergence():
    once = fit(metric=infinite_below_a_half)
    often = fit(metric=infinite_below_a_half, evaluate_every=1)
    assert not often.diverged.any()
    np.testing.assert_array_equal(often.loss, once.loss)
    np.testing.assert_array_equal(often.final("train"), once.final("train"))
    # 1 - .8^t, after t epochs, exceeds one half from the fourth on.
    finite = np.isfinite(often.curves["train"][0, 0, 0])
    np.testing.assert_array_equal(finite, np.arange(1, 11) > 3)


def test_a_set_that_overflows_spoils_no_other():
    results = fit(evaluate={"huge": jnp.full(4, 1e30), "test": jnp.ones(4)}, keep="best")
    assert not results.diverged.any()
    assert np.isposinf(results.final("huge")).all()
    np.testing.assert_array_equal(results.final("test"), results.final("train"))
    assert results.best("test").params == pytest.approx(1 - 0.8**10)
    with pytest.raises(ValueError, match="1 lanes without a finite metric on 'huge'"):
        results.best("huge")
    assert np.isnan(fit(metric=lambda w, _: w * jnp.nan).final("train")).all()


def test_parameters_that_overflow_in_the_last_step_have_diverged():
    # The loss was finite when it was taken; the step from there is not.
    for metric in (None, lambda w, _: jnp.where(jnp.isfinite(w), w, 0.0)):
        results = fit(learning_rates=[0.1, 3e38], epochs=1, metric=metric)
        np.testing.assert_array_equal(results.diverged_epoch[:, 0, 0], [np.nan, 1])
        assert np.isposinf(results.final("train")[1]).all()


def test_a_lane_that_overflows_on_the_way_and_comes_back_is_not_the_best():
    # After the drop every rate contracts: the last loss is finite again, and was not between.
    slopes = jnp.array([1.0, 0.001])

    def loss(w, batch):
        return jnp.sum(slopes * w**2) / 2 * batch[0]

    options = {"momentum": 0.0, "drops": {70: 0.1}, "epochs": 300}
    results = fit_grid(loss, jnp.ones(2), jnp.ones(1), learning_rates=[0.3, 3.0], **options)
    # By -2 a step: 4^t / 2 exceeds 3.4e38 at t = 64, the start of the 65th epoch.
    np.testing.assert_array_equal(results.diverged_epoch[:, 0, 0], [np.nan, 65])
    best = results.best("train")
    assert best.learning_rate == 0.3
    assert best.params is not None
