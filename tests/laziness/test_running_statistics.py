# SPDX-License-Identifier: Apache-2.0
"""What the running statistics of batch normalisation do is told from what training does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import laziness
from unlazy.laziness import diagnose

SENTENCE = "Mind the running statistics of batch normalisation: they alone"


def of_pytorch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(16)
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 16), norm, torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )
    module(torch.randn(64, 8))
    start = laziness.snapshot(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 1 + 1e-5
        trained = laziness.snapshot(module)
        for _ in range(20):
            module(3 * torch.randn(64, 8) + 1)
    return module.eval(), start, trained, laziness.snapshot(module), torch.randn(40, 8)


def of_linen():
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.BatchNorm(use_running_average=True)(nn.Dense(16)(x))
            return nn.Dense(1)(nn.relu(x))

    net, x = Net(), np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    f, start = laziness.from_linen(net, net.init(jax.random.key(0), x))
    start = {**start, "batch_stats": jax.tree.map(lambda v: v + 0.25, start["batch_stats"])}
    trained = {**start, "params": jax.tree.map(lambda v: v * (1 + 1e-5), start["params"])}
    end = {**trained, "batch_stats": jax.tree.map(lambda v: v + 1, start["batch_stats"])}
    return f, start, trained, end, x


def of_equinox():
    class Net(eqx.Module):
        norm: eqx.nn.BatchNorm
        out: eqx.nn.Linear

        def __call__(self, x, state):
            x, state = self.norm(x, state)
            return self.out(jnp.tanh(x)), state

    def make(key):
        return Net(eqx.nn.BatchNorm(8, "rows", mode="ema"), eqx.nn.Linear(8, 1, key=key))

    net, state = eqx.nn.make_with_state(make)(jax.random.key(0))
    x = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    run = jax.vmap(net, axis_name="rows", in_axes=(0, None), out_axes=(0, None))
    state = run(jnp.asarray(x), state)[1]
    f, start = laziness.from_equinox(net, state)
    trained = (jax.tree.map(lambda v: v * (1 + 1e-5), start[0]), start[1])
    return f, start, trained, (trained[0], run(3 * jnp.asarray(x) + 1, state)[1]), x


@pytest.mark.parametrize("make", [of_pytorch, of_linen, of_equinox])
def test_a_change_that_is_that_of_the_statistics_is_called_so(make):
    f, start, trained, end, x = make()
    report = diagnose(f, start, end, x, order=1)
    assert report.taylor.statistics_share == pytest.approx(1, abs=0.01)
    assert report.taylor.statistics_size == pytest.approx(1, abs=0.01)
    assert SENTENCE in report.verdict.lazy
    assert "norm(S)/norm(D) = 1" in str(report)
    still = diagnose(f, start, trained, x, order=1)
    assert still.taylor.statistics_size == 0
    assert SENTENCE not in still.verdict.lazy


def test_the_share_of_the_statistics_is_that_of_a_plain_route():
    f, start, _, end, x = of_linen()
    params = jax.tree.map(lambda v: v * 1.5, start["params"])
    end = {**end, "params": params}
    f0, f1 = (np.asarray(f(p, x), np.float64) for p in (start, end))
    S = np.asarray(f({**start, "batch_stats": end["batch_stats"]}, x), np.float64) - f0
    found, D = diagnose(f, start, end, x, order=1).taylor, f1 - f0
    assert found.statistics_share == pytest.approx(np.sum(S * D) / np.sum(D**2), rel=1e-4)
    assert found.statistics_size == pytest.approx(np.linalg.norm(S) / np.linalg.norm(D), rel=1e-4)


def test_a_model_without_statistics_has_no_such_line():
    x = np.eye(4, dtype=np.float32)
    report = diagnose(lambda w, x: jnp.tanh(x @ w), jnp.ones(4), 2 * jnp.ones(4), x, order=1)
    assert np.isnan(report.taylor.statistics_size)
    assert "statistics" not in str(report)
