# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np

from unlazy.linalg.full_precision import full_product


def test_a_product_asks_for_the_full_precision_of_its_entries():
    A, B = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    np.testing.assert_array_equal(full_product(A, B), np.asarray(A) @ np.asarray(B))
    assert "Precision.HIGHEST" in str(jax.make_jaxpr(full_product)(A, B))
