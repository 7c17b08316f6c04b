# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlazy.data import corrupt_labels, random_labels

# The same examples every time, and none of them timed: machines are shared.
FIXED = settings(derandomize=True, deadline=None)


def test_random_labels_are_fair_signs(getkey):
    """The mean of 10,000 signs is within 6 standard errors of 0: by chance below 1e-8."""
    y = random_labels(10_000, key=getkey())
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert abs(float(y.mean())) < 6 / math.sqrt(10_000)


@FIXED
@given(
    n=st.sampled_from([1, 2, 7, 40]),
    fraction=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_exactly_the_rounded_share_is_drawn_again(n, fraction, seed):
    """From y and from -y the fresh labels are the same and the kept ones opposite."""
    key_y, key = jr.split(jr.key(seed))
    y = random_labels(n, key=key_y)
    plus, minus = corrupt_labels(y, fraction, key=key), corrupt_labels(-y, fraction, key=key)
    fresh = np.asarray(plus == minus)
    assert fresh.sum() == round(fraction * n)
    np.testing.assert_array_equal(plus[~fresh], y[~fresh])
    assert set(np.unique(plus)) <= {-1.0, 1.0}


def test_a_larger_fraction_adds_to_the_fresh_labels_of_a_smaller_one(getkey):
    y, key = jnp.ones(200), getkey()
    few, more = (np.asarray(corrupt_labels(y, fraction, key=key)) for fraction in (0.3, 0.6))
    assert set(np.flatnonzero(few == -1)) < set(np.flatnonzero(more == -1))


@pytest.mark.slow
def test_every_label_is_as_likely_to_change(getkey):
    """With 3 of 10 drawn again each changes with probability 0.15, and 3 at once in an eighth.

    4,000 draws; each of 11 frequencies is held to 6 standard errors: by chance below 1e-7.
    """
    draws, y = 4000, random_labels(10, key=getkey())
    new = jax.vmap(lambda k: corrupt_labels(y, 0.3, key=k))(jr.split(getkey(), draws))
    changed = np.asarray(new != y[None])
    error = np.abs(changed.mean(axis=0) - 0.15)
    assert error.max() < 6 * math.sqrt(0.15 * 0.85 / draws)
    assert abs((changed.sum(axis=1) == 3).mean() - 1 / 8) < 6 * math.sqrt(7 / 64 / draws)


def test_corruption_agrees_under_jit_and_keeps_the_dtype(getkey):
    y, key = random_labels(50, key=getkey()).astype(jnp.float16), getkey()
    plain = corrupt_labels(y, 0.4, key=key)
    assert plain.dtype == jnp.float16
    np.testing.assert_array_equal(jax.jit(lambda z: corrupt_labels(z, 0.4, key=key))(y), plain)


@pytest.mark.parametrize("fraction", [-0.01, 1.01, math.nan])
def test_a_fraction_outside_of_the_unit_interval_is_refused(fraction):
    with pytest.raises(ValueError, match="`fraction` must be between 0 and 1, got fraction="):
        corrupt_labels(jnp.ones(3), fraction, key=jr.key(0))


def test_labels_other_than_signs_are_refused_by_row():
    with pytest.raises(ValueError, match=r"only \+1 and -1, got other values in rows 1 and 3"):
        corrupt_labels(jnp.array([1.0, 0.0, -1.0, jnp.nan]), 0.5, key=jr.key(0))


def test_no_labels_are_refused():
    with pytest.raises(ValueError, match=r"got y.shape=\(0,\)"):
        corrupt_labels(jnp.ones(0), 0.5, key=jr.key(0))
    with pytest.raises(ValueError, match="`n` must be an integer >= 1"):
        random_labels(0, key=jr.key(0))
