# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.papers.shared.grids import linear
from unlazy.papers.shared.grids.linear import Coefficients, Rows, best_parts, in_parts, mean_square


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("parts", [1, 2, 6])
def test_parts_add_up_to_the_product(outputs, parts):
    K, alpha = jr.normal(jr.key(0), (5, 12)), jr.normal(jr.key(1), (12, *outputs))
    found = in_parts(K, alpha, parts)
    assert found.shape == (5, *outputs)
    np.testing.assert_allclose(found, np.asarray(K) @ np.asarray(alpha), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "columns", "parts"),
    [
        (50, 5000, 20),
        (50, 1000, 4),
        (50, 300, 1),
        (50, 4999, 1),  # a prime number
        (750, 7500, 10),  # coupled outputs
        (2000, 1000, 1),  # a test set
    ],
)
def test_an_accelerator_has_parts_of_some_hundred_columns(monkeypatch, rows, columns, parts):
    assert best_parts(rows, columns) == 1  # on cores
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert best_parts(rows, columns) == parts


@pytest.mark.parametrize("coupled", [False, True])
def test_errors_and_their_derivatives_are_the_same_in_parts(monkeypatch, coupled):
    n, c = 12, 2
    shape = (n, c, n, c) if coupled else (n, n)
    K, y, alpha = (
        jr.normal(key, s)
        for key, s in zip(jr.split(jr.key(2), 3), [shape, (n, c), (n, c)], strict=True)
    )
    rows = Rows(K, jnp.arange(n, dtype=jnp.int32), y, y, 2 * y)

    def both():
        return jax.value_and_grad(mean_square)(Coefficients(jnp.ones(()), alpha), rows)

    whole = both()
    monkeypatch.setattr(linear, "best_parts", lambda *_: 4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), both(), whole)
