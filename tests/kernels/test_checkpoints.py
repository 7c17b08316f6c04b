# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels.checkpoints import problem_digest

N, D = 2100, 3  # more rows than a digest of every second one would see


@pytest.fixture(scope="module")
def problem():
    draw = np.random.default_rng(0)
    return draw.normal(size=(N, D)).astype(np.float32), draw.normal(size=(N, 1))


def digest(x, y, settings="ridge 0", purpose="a fit"):
    return problem_digest(jnp.asarray(x), y, settings, purpose=purpose)


def test_the_digest_is_that_of_the_same_problem(problem):
    x, y = problem
    assert digest(x, y) == digest(x.copy(), y.copy())


def changed(x, change):
    out = x.copy()
    if change == "one entry by one bit":
        out[1, 2] = np.nextafter(out[1, 2], np.float32(np.inf))
    elif change == "one sign":
        out[1001, 0] *= -1
    elif change == "two rows swapped":
        out[[5, 7]] = out[[7, 5]]
    elif change == "two columns swapped":
        out = out[:, [0, 2, 1]]
    else:
        out[1::2] = np.random.default_rng(1).normal(size=out[1::2].shape)
    return out


@pytest.mark.parametrize(
    "change",
    [
        "one entry by one bit",
        "one sign",
        "two rows swapped",
        "two columns swapped",
        "every second row",
    ],
)
def test_the_digest_sees_every_entry_of_the_samples(problem, change):
    x, y = problem
    assert digest(x, y) != digest(changed(x, change), y)


def test_the_digest_sees_labels_settings_and_purpose(problem):
    x, y = problem
    other = y.copy()
    other[N // 2] += 1e-9
    found = [
        digest(x, y),
        digest(x, other),
        digest(x, y, settings="ridge 1"),
        digest(x, y, purpose="bounds"),
    ]
    assert len(set(found)) == len(found)
