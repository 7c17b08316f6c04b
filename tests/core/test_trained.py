# SPDX-License-Identifier: Apache-2.0
"""The choice of what is trained is kept for each structure, and is that of the structure."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core import trained as module
from unlazy.core.trained import partition


class Scaled(eqx.Module):
    weight: jax.Array
    options: Any = eqx.field(static=True)
    rate: float = 0.5


@pytest.fixture
def looked(monkeypatch):
    """How many times the roles of leaves are looked for."""
    calls, roles = [], module.roles
    monkeypatch.setattr(module, "_CHOICES", {})
    monkeypatch.setattr(module, "roles", lambda params: calls.append(1) or roles(params))
    return calls


def test_roles_are_looked_for_once_per_structure_and_dtypes(looked):
    for factor in (1.0, 2.0):
        found, rest = partition({"w": factor * jnp.ones(2), "n": jnp.arange(3)}, None)
        np.testing.assert_array_equal(found["w"], [factor, factor])
        assert found["n"] is None
        assert rest["w"] is None
        np.testing.assert_array_equal(rest["n"], [0, 1, 2])
    assert len(looked) == 1
    found, _ = partition({"w": jnp.ones(2), "n": jnp.ones(3)}, None)
    assert found["n"] is not None
    found, _ = partition({"batch_stats": {"w": jnp.ones(2)}, "params": {"w": jnp.ones(2)}}, None)
    assert found["batch_stats"]["w"] is None
    assert len(looked) == 3


def test_kinds_of_numbers_are_told_apart():
    for value, is_trained in ((1.0, True), (1, False), (np.ones(2), True), (np.ones(2) > 0, False)):
        found, rest = partition({"w": jnp.ones(2), "v": value}, None)
        assert (found["v"] is not None) is is_trained
        assert isinstance(found["v"] if is_trained else rest["v"], jax.Array | int | np.ndarray)


class Uncomparable:
    def __hash__(self):
        return 0

    def __eq__(self, other):
        raise ValueError


def test_a_structure_that_cannot_be_compared_is_looked_at_each_time(looked):
    for _ in range(2):
        found, rest = partition(Scaled(jnp.ones(2), Uncomparable()), None)
        assert found.weight is not None
        assert rest.rate == 0.5
    assert len(looked) == 2


def test_few_structures_are_kept(looked):
    for k in range(module._MOST + 2):
        partition({f"w{k}": jnp.ones(1)}, None)
    assert len(module._CHOICES) == 2
