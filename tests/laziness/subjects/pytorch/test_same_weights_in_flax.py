# SPDX-License-Identifier: Apache-2.0
"""The same weights in Flax and in PyTorch: the same kernels, Taylor terms and active units.

Each pair is the same network, written in both libraries; weights go from PyTorch to Flax. The
answers about Flax are those of the instruments, which share no code with the ones about PyTorch.
"""

import flax.linen as fnn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.laziness import from_linen, snapshot
from unlazy.laziness.subjects.jax_subject import JaxSubject

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from unlazy.laziness.subjects.pytorch.subject import TorchSubject  # noqa: E402


@pytest.fixture(autouse=True)
def as_users_run():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
    torch.set_num_threads(before)


class FlaxMLP(fnn.Module):
    relu: bool

    @fnn.compact
    def __call__(self, x):
        for width in (8, 6):
            x = fnn.Dense(width)(x)
            x = fnn.relu(x) if self.relu else jnp.tanh(x)
            self.sow("units", "relu", x > 0)
        return fnn.Dense(2)(x)


class FlaxCNN(fnn.Module):
    @fnn.compact
    def __call__(self, x):  # (n, height, width, channels)
        x = fnn.Conv(4, (3, 3))(x)
        x = fnn.relu(fnn.BatchNorm(use_running_average=True, epsilon=1e-5)(x))
        self.sow("units", "relu", x > 0)
        x = fnn.max_pool(x, (2, 2), strides=(2, 2))
        # PyTorch flattens channels first.
        return fnn.Dense(2)(jnp.moveaxis(x, -1, 1).reshape(x.shape[0], -1))


class FlaxEncoder(fnn.Module):
    @fnn.compact
    def __call__(self, x):
        x = fnn.LayerNorm(epsilon=1e-5)(x + fnn.MultiHeadDotProductAttention(2)(x, x))
        h = fnn.relu(fnn.Dense(6)(x))
        self.sow("units", "relu", h > 0)
        x = fnn.LayerNorm(epsilon=1e-5)(x + fnn.Dense(4)(h))
        return fnn.Dense(2)(x.mean(axis=1))


class TorchEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.block(x).mean(1))


def dense(state, name):
    return {"kernel": state[f"{name}.weight"].T, "bias": state[f"{name}.bias"]}


def scale(state, name):
    return {"scale": state[f"{name}.weight"], "bias": state[f"{name}.bias"]}


def mlp_variables(state):
    return {"params": {f"Dense_{i}": dense(state, str(2 * i)) for i in range(3)}}


def cnn_variables(state):
    kernel = state["0.weight"].permute(2, 3, 1, 0)
    params = {
        "Conv_0": {"kernel": kernel, "bias": state["0.bias"]},
        "BatchNorm_0": scale(state, "1"),
        "Dense_0": dense(state, "5"),
    }
    statistics = {"mean": state["1.running_mean"], "var": state["1.running_var"]}
    return {"params": params, "batch_stats": {"BatchNorm_0": statistics}}


def encoder_variables(state):
    attention = {}
    weights, biases = (state[f"block.self_attn.in_proj_{k}"].chunk(3) for k in ("weight", "bias"))
    for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
        attention[name] = {"kernel": weight.T.reshape(4, 2, 2), "bias": bias.reshape(2, 2)}
    out = dense(state, "block.self_attn.out_proj")
    attention["out"] = {"kernel": out["kernel"].reshape(2, 2, 4), "bias": out["bias"]}
    return {
        "params": {
            "MultiHeadDotProductAttention_0": attention,
            "LayerNorm_0": scale(state, "block.norm1"),
            "LayerNorm_1": scale(state, "block.norm2"),
            "Dense_0": dense(state, "block.linear1"),
            "Dense_1": dense(state, "block.linear2"),
            "Dense_2": dense(state, "last"),
        }
    }


def torch_mlp(activation):
    widths = (nn.Linear(5, 8), nn.Linear(8, 6), nn.Linear(6, 2))
    return nn.Sequential(widths[0], activation, widths[1], activation, widths[2])


def torch_cnn():
    layers = (nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(36, 2))


PAIRS = {
    "ReLU MLP": (FlaxMLP(relu=True), lambda: torch_mlp(nn.ReLU()), mlp_variables, (5,)),
    "tanh MLP": (FlaxMLP(relu=False), lambda: torch_mlp(nn.Tanh()), mlp_variables, (5,)),
    "CNN with batch norm": (FlaxCNN(), torch_cnn, cnn_variables, (6, 6, 2)),
    "transformer": (FlaxEncoder(), TorchEncoder, encoder_variables, (3, 4)),
}


@pytest.fixture(params=PAIRS)
def pair(request):
    """Module, start and end in PyTorch; the same in Flax; inputs in both layouts."""
    torch.manual_seed(0)
    flax_module, make, variables_of, shape = PAIRS[request.param]
    module = make()
    x = np.random.default_rng(0).standard_normal((5, *shape)).astype(np.float32)
    channels_first = np.moveaxis(x, -1, 1) if len(shape) == 3 else x
    module.train()(torch.as_tensor(channels_first.copy()))  # statistics that are not 0 and 1
    module.eval()
    start = snapshot(module)
    end = {k: v + 0.02 * torch.randn_like(v) if v.is_floating_point() else v.clone()
           for k, v in start.items()}  # fmt: skip
    ours = jax.tree.map(lambda v: jnp.asarray(v.numpy()), (variables_of(start), variables_of(end)))
    return TorchSubject(module), (start, end), flax_module, ours, channels_first, x


def test_outputs_kernels_and_terms_agree_to_1e_4(pair):
    subject, (start, end), flax_module, (params, moved), x_torch, x = pair
    f, _ = from_linen(flax_module, params)
    for state, variables in ((start, params), (end, moved)):
        np.testing.assert_allclose(subject.outputs(state, x_torch), f(variables, x), atol=1e-5)
        K = sum(subject.layer_kernels(state, x_torch, np.eye(2)).values())
        expected = np.asarray(ul.kernels.empirical_ntk_traced(f, variables, x))
        np.testing.assert_allclose(K, expected, atol=1e-4 * np.abs(expected).max())
    order = 2 if isinstance(flax_module, FlaxEncoder) else 3  # its program is long to compile
    expected = JaxSubject(f, params, x).taylor_terms(params, moved, x, order)
    for term, other in zip(subject.taylor_terms(start, end, x_torch, order), expected, strict=True):
        scale = max(np.abs(other).max(), 1e-3 * np.abs(expected).max())
        np.testing.assert_allclose(term, other, atol=1e-4 * scale)


@pytest.mark.parametrize("pair", ["CNN with batch norm"], indirect=True)
def test_kernels_of_layers_agree(pair):
    subject, (start, _), flax_module, (params, _), x_torch, x = pair
    f, _ = from_linen(flax_module, params)
    found = subject.layer_kernels(start, x_torch, np.eye(2))
    last = max(name for name in params["params"] if name.startswith("Dense"))
    rest = {k: v for k, v in params.items() if k != "params"}

    def of_last(weights, x):
        return f({"params": {**params["params"], last: weights}, **rest}, x)

    expected = np.asarray(ul.kernels.empirical_ntk_traced(of_last, params["params"][last], x))
    np.testing.assert_allclose(list(found.values())[-1], expected, rtol=1e-4)


def test_active_units_are_the_same(pair):
    subject, (start, end), flax_module, ours, x_torch, x = pair
    for state, variables in zip((start, end), ours, strict=True):
        found = list(subject.active_units(state, x_torch).values())
        _, sown = flax_module.apply(variables, x, mutable=["units"])
        expected = [np.asarray(unit) for unit in sown["units"]["relu"]]
        if getattr(flax_module, "relu", True) is False:
            assert found == []  # tanh has no units that switch
            continue
        for units, other in zip(found, expected, strict=True):
            is_image = isinstance(flax_module, FlaxCNN)
            other = np.moveaxis(other, -1, 1) if is_image else other
            np.testing.assert_array_equal(units, other.reshape(len(x), -1))


@pytest.mark.parametrize("pair", ["CNN with batch norm"], indirect=True)
def test_the_report_is_the_same_to_1e_4(pair):
    subject, (start, end), flax_module, (params, moved), x_torch, x = pair
    f, _ = from_linen(flax_module, params)
    y = np.array([0, 1, 1, 0, 1])
    one = ul.diagnose(subject.module, start, end, torch.as_tensor(x_torch), torch.as_tensor(y))
    two = ul.diagnose(f, params, moved, x, y)
    for left, right in zip(numbers(one), numbers(two), strict=True):
        assert left == pytest.approx(right, rel=1e-4, abs=1e-4, nan_ok=True)
    assert one.verdict.kind == two.verdict.kind


def numbers(report):
    """What a report says of the whole model, whatever its layers are called."""
    drift = report.drift
    yield from (drift.whole.relative, drift.whole.turned, drift.whole.centred)
    yield from (drift.alignment_start, drift.alignment_end, report.flips.share)
    yield from (report.movement.relative, report.features.distance, report.parameters)
    yield from (*report.taylor.errors, *report.taylor.shares)
    yield from (value for score in report.twins.scores for value in (score.accuracy, score.loss))
    spectral = sorted(layer.spectral for layer in report.movement.layers if layer.spectral > 0)
    yield from spectral
