# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import numpy as np

from unlazy.train import fit_grid


def test_where_all_lanes_diverge_training_ends_and_says_when():
    result = fit_grid(
        lambda w, batch: jnp.sum(batch * w**2),
        jnp.ones(()),
        jnp.ones(4),
        learning_rates=[1e8],
        epochs=500,
    )
    epoch = int(result.diverged_epoch[0, 0, 0])
    assert 0 < epoch < 20
    assert np.isnan(result.loss[0, 0, 0, epoch:]).all()
