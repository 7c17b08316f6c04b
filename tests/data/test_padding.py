# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.data import pad_to_sphere


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "last"), [(1, 1, 0.5), (40, 7, 0.5), (9, 3, 0.0)])
def test_padded_rows_have_unit_norm_and_keep_their_geometry(n, d, last, dtype):
    rng = np.random.default_rng([n, d])
    x = (rng.standard_normal((n, d)) * rng.uniform(0.01, 30, (n, 1))).astype(dtype)
    x[0] = 0 if n > 1 else x[0]
    padded = pad_to_sphere(x, last=last)
    assert padded.shape == (n, d + 2)
    assert padded.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(np.linalg.norm(padded, axis=1), 1, rtol=8 * eps)
    np.testing.assert_array_equal(padded[:, -1], np.asarray(last, dtype))
    # Every linear function survives: <w, x> is <(w/s, 0, 0), padded>.
    s = np.sqrt(1 - last**2) / np.linalg.norm(x.astype(np.float64), axis=1).max()
    w = rng.standard_normal(d)
    lifted = np.concatenate([w / s, [0, 0]])
    np.testing.assert_allclose(padded @ lifted, x @ w, rtol=1e3 * eps, atol=1e3 * eps / s)
    # The longest row needs no height, a row of zeros needs all of it.
    longest = np.argmax(np.linalg.norm(x, axis=1))
    assert padded[longest, -2] < 4 * np.sqrt(eps)
    if n > 1:
        assert padded[0, -2] == pytest.approx(np.sqrt(1 - last**2), rel=4 * eps)


def test_training_and_other_inputs_are_scaled_alike_by_one_radius():
    rng = np.random.default_rng(3)
    train, other = rng.standard_normal((20, 4)), 0.1 * rng.standard_normal((5, 4))
    radius = float(np.linalg.norm(train, axis=1).max())
    both = pad_to_sphere(np.concatenate([train, other]))
    np.testing.assert_allclose(pad_to_sphere(train, radius=radius), both[:20], rtol=1e-13)
    np.testing.assert_allclose(pad_to_sphere(other, radius=radius), both[20:], rtol=1e-13)
    assert np.abs(pad_to_sphere(other) - both[20:]).max() > 0.1  # a radius of its own
    # Other points stay other points, which normalising would not do.
    line = pad_to_sphere(np.outer([1.0, 2.0, 3.0], np.ones(4)))
    assert np.linalg.norm(line[0] - line[1]) > 0.3


def test_jax_arrays_and_extreme_sizes_are_padded_too():
    x = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    expected = pad_to_sphere(x)
    for found in (pad_to_sphere(jnp.asarray(x)), jax.jit(pad_to_sphere)(jnp.asarray(x))):
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    for size in (1e-30, 1e30):  # whose squares are 0 and inf in float32
        np.testing.assert_allclose(
            pad_to_sphere(x * np.float32(size)), expected, rtol=1e-5, atol=1e-3
        )
    np.testing.assert_allclose(pad_to_sphere(np.zeros((2, 3)))[0], [0, 0, 0, 0.75**0.5, 0.5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": 1.0}, "`last` must be at least 0 and below 1, got last=1.0"),
        ({"radius": 0.9}, "`radius` must be at least the norm of every row, 1, got radius=0.9"),
        ({"radius": -1}, "`radius` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        pad_to_sphere(np.eye(3), **options)
