# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp

from unlazy.core.machine import default_memory, on_host


def test_the_default_budget_is_a_share_of_this_machine():
    assert 2**26 < default_memory() < 2**44


def test_what_is_computed_on_the_host_is_there():
    with on_host():
        assert next(iter(jnp.arange(3).devices())).platform == "cpu"


def test_without_a_processor_it_stays_on_the_accelerator(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("Unknown backend cpu")

    monkeypatch.setattr(jax, "local_devices", refuse)
    with on_host():
        assert int(jnp.sum(jnp.arange(3))) == 3
