# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.data import cube, sphere


@pytest.mark.parametrize("d", [1, 2, 50])
@pytest.mark.parametrize("radius", [1.0, 3.5])
def test_points_of_the_sphere_have_its_radius(d, radius, getkey):
    x = sphere(200, d, radius=radius, key=getkey())
    # A norm of d float32 numbers is good to about d rounding errors.
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), radius, rtol=1.2e-7 * (d + 5))


def test_moments_of_the_sphere_are_those_of_the_uniform_distribution(getkey):
    """E x = 0, E x x^T = I/d and E x_i^4 = 3/(d(d+2)); the last tells it from a projected cube.

    Each of the 40 numbers is held to 6 standard errors: with normal means the test fails by chance
    with probability below 1e-7.
    """
    n, d = 40_000, 5
    x = np.asarray(sphere(n, d, key=getkey()), np.float64)
    pairs = x[:, :, None] * x[:, None, :]
    for sample, expected in [(x, 0), (pairs, np.eye(d) / d), (x**4, 3 / (d * (d + 2)))]:
        error = np.abs(sample.mean(axis=0) - expected)
        assert (error < 6 * sample.std(axis=0) / math.sqrt(n)).all()


def test_cube_hits_every_corner_equally_often(getkey):
    """Frequencies of the 8 corners, each within 6 standard errors: by chance below 1e-7."""
    n, d = 16_000, 3
    x = np.asarray(cube(n, d, scale=0.25, key=getkey()))
    counts = [
        int((x == 0.25 * np.array(s)).all(1).sum()) for s in itertools.product([-1, 1], repeat=d)
    ]
    assert sum(counts) == n
    assert np.abs(np.array(counts) / n - 1 / 8).max() < 6 * math.sqrt(1 / 8 * 7 / 8 / n)


@pytest.mark.parametrize("draw", [sphere, cube])
def test_a_key_fixes_the_draw_also_under_jit(draw, getkey):
    key = getkey()
    x = draw(7, 3, key=key)
    np.testing.assert_allclose(jax.jit(lambda k: draw(7, 3, key=k))(key), x, rtol=1e-6)
    assert not np.array_equal(draw(7, 3, key=getkey()), x)


@pytest.mark.parametrize("draw", [sphere, cube])
def test_draws_have_the_default_dtype_of_jax(draw):
    assert draw(2, 3, key=jr.key(0)).dtype == jnp.float32
    with jax.enable_x64(True):
        assert draw(2, 3, key=jr.key(0)).dtype == jnp.float64


@pytest.mark.parametrize("draw", [sphere, cube])
@pytest.mark.parametrize(("n", "d", "name"), [(0, 3, "n"), (3, 0, "d"), (-1, 3, "n")])
def test_empty_sizes_are_refused(draw, n, d, name):
    with pytest.raises(ValueError, match=f"`{name}` must be an integer >= 1, got {name}="):
        draw(n, d, key=jr.key(0))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_size_that_is_not_positive_is_refused(bad):
    with pytest.raises(ValueError, match="`radius` must be a positive number"):
        sphere(2, 2, radius=bad, key=jr.key(0))
    with pytest.raises(ValueError, match="`scale` must be a positive number"):
        cube(2, 2, scale=bad, key=jr.key(0))
