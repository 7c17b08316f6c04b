# SPDX-License-Identifier: Apache-2.0
"""The slope that both sides of a kink agree on, against JAX's and a measured one."""

import jax.numpy as jnp
import pytest

from unlazy.taylor import NoTaylorTermError
from unlazy.taylor.sides import check_slope

EPS = 1e-7


def test_a_slope_that_the_outputs_deny_is_refused():
    jax_slope, measured = jnp.array([4.0, 3.0]), jnp.array([4.01, 2.99])
    with pytest.raises(NoTaylorTermError, match=r"order 1 at a kink \(eq\) cannot .* in row 1\."):
        check_slope(jnp.array([4.0, 0.0]), jax_slope, measured, EPS, ["eq"])


def test_a_slope_that_the_outputs_confirm_may_differ_from_that_of_jax():
    check_slope(jnp.array([1.0]), jnp.array([0.0]), jnp.array([0.98]), EPS, ["gt"])
