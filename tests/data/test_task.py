# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from unlazy.data import Task


def make(**changes):
    arrays = {
        "x_train": jnp.ones((4, 3)),
        "y_train": jnp.ones(4),
        "x_test": jnp.ones((2, 3)),
        "y_test": jnp.ones(2),
    }
    return Task(**(arrays | changes), name="made up", classes=(0, 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"x_test": jnp.ones((2, 5))},
        {"y_test": jnp.ones(3)},
        {"y_train": jnp.ones((4, 3))},  # a row of labels to train on, one label to test on
        {"x_train": jnp.ones(4)},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes, monkeypatch):
    # Users run without the shape checks that this suite has on: the class finds these by itself.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"must have .* got \w+.shape="):
        make(**changes)


def test_zero_rows_and_nan_are_refused_by_row():
    with pytest.raises(ValueError, match="`x_test` must have no row of zeros, got zeros in row 1"):
        make(x_test=jnp.ones((2, 3)).at[1].set(0))
    with pytest.raises(ValueError, match="`y_train` must be finite, got nan or inf in row 2"):
        make(y_train=jnp.ones(4).at[2].set(jnp.nan))


def test_a_task_passes_through_transformations_with_its_name():
    task = make()
    doubled = jax.jit(lambda t: jax.tree.map(lambda a: 2 * a, t))(task)
    np.testing.assert_array_equal(doubled.x_train, 2 * task.x_train)
    assert (doubled.name, doubled.classes) == ("made up", (0, 1))
    assert len(jax.tree.leaves(task)) == 4
