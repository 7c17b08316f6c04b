# SPDX-License-Identifier: Apache-2.0
"""What is seen while a PyTorch module computes: ReLU units, last features; weights as matrices."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unlazy.laziness import snapshot  # noqa: E402
from unlazy.laziness.subjects.pytorch.subject import TorchSubject  # noqa: E402


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.block(x).mean(1))


def prepared(module, shape=(4,), n=4):
    """The module in float64 and evaluation mode, its state and inputs."""
    module = module.double().eval()
    return module, snapshot(module), np.random.default_rng(0).standard_normal((n, *shape))


RELUS = {
    "nn.ReLU": nn.ReLU(),
    "in place": nn.ReLU(inplace=True),
    "F.relu": F.relu,
    "torch.relu": torch.relu,
    "Tensor.relu": lambda z: z.relu(),
    "Tensor.relu_": lambda z: z.relu_(),
    "clamp": lambda z: z.clamp(min=0),
    "clamp_min": lambda z: torch.clamp_min(z, 0.0),
    "clamp by a tensor": lambda z: torch.clamp(z, min=torch.zeros(())),
    "maximum": lambda z: torch.maximum(torch.zeros_like(z), z),
    "leaky": nn.LeakyReLU(0.1, inplace=True),
    "parametric": nn.PReLU(),
    "randomised": nn.RReLU(),
    "threshold": nn.Threshold(0, 0),
    "relu6": F.relu6,
}


class Activated(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.first, self.second, self.activation = nn.Linear(4, 5), nn.Linear(5, 2), activation

    def forward(self, x):
        return self.activation(self.second(self.activation(self.first(x).clamp(max=9)))) + 1


@pytest.mark.parametrize("relu", RELUS)
def test_active_units_are_those_with_positive_inputs(relu):
    module, start, x = prepared(Activated(RELUS[relu]))
    found = TorchSubject(module).active_units(start, x)
    z = module.first(torch.as_tensor(x))
    h = module.activation(z.clone())
    expected = [z > 0, module.second(h) > 0]
    assert list(found) == ["relu 1 after first", "relu 2 after second"]
    for active, units in zip(found.values(), expected, strict=True):
        np.testing.assert_array_equal(active, units)


@pytest.mark.parametrize("other", [torch.tanh, F.gelu, lambda z: z.clamp(-1, 1), F.hardswish])
def test_other_activations_are_no_relus(other):
    module, start, x = prepared(Activated(other))
    assert TorchSubject(module).active_units(start, x) == {}


def test_units_are_found_in_a_fused_encoder_and_rows_stay_apart():
    module, start, x = prepared(Encoder(), (3, 4), n=300)  # more than one chunk
    found = TorchSubject(module).active_units(start, x)
    assert {name: active.shape for name, active in found.items()} == {
        "relu 1 after block/linear1": (300, 18)
    }
    alone = TorchSubject(module).active_units(start, x[290:291])
    (row,) = alone.values()
    np.testing.assert_array_equal(found["relu 1 after block/linear1"][290:291], row)


def test_last_features_times_the_last_layer_are_the_outputs():
    plain = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    plain.add_module("last", nn.Linear(3, 2))
    for given, shape in ((plain, (4,)), (Encoder(), (3, 4))):
        module, state, x = prepared(given, shape)
        features = TorchSubject(module).last_features(state, x)
        product = features @ state["last.weight"].numpy().T + state["last.bias"].numpy()
        np.testing.assert_allclose(product, TorchSubject(module).outputs(state, x), rtol=1e-12)


def test_last_features_may_be_followed_by_a_factor_and_a_shape_and_by_nothing_else():
    class Scaled(nn.Module):
        def __init__(self, after):
            super().__init__()
            self.last, self.after = nn.Linear(4, 1), after

        def forward(self, x):
            return self.after(self.last(x))

    for after in (lambda z: z[:, 0], lambda z: z / 3):
        module, start, x = prepared(Scaled(after))
        np.testing.assert_allclose(TorchSubject(module).last_features(start, x), x)
    for after in (torch.tanh, lambda z: z + 1, torch.relu_):
        module, start, x = prepared(Scaled(after), n=40)  # of both signs
        with pytest.raises(ValueError, match=r"must end in an nn\.Linear.*got another operation"):
            TorchSubject(module).last_features(start, x)
    conv = nn.Sequential(nn.Conv1d(4, 2, 1), nn.Flatten()).double()
    with pytest.raises(ValueError, match=r"must end in an nn\.Linear.*got no nn\.Linear"):
        TorchSubject(conv).last_features(snapshot(conv), np.ones((3, 4, 1)))


def test_weights_are_matrices_with_one_row_per_neuron():
    module = nn.ModuleDict({
        "linear": nn.Linear(3, 5), "conv": nn.Conv2d(4, 6, 3, groups=2),
        "norm": nn.LayerNorm([2, 3]),
        "back": nn.ConvTranspose1d(4, 6, 2, groups=2), "table": nn.Embedding(7, 3),
        "attention": nn.MultiheadAttention(4, 2, add_bias_kv=True), "lstm": nn.LSTM(3, 2),
        "weighed": nn.utils.parametrizations.weight_norm(nn.Linear(3, 5)),
    })  # fmt: skip
    module.positions = nn.Parameter(torch.zeros(1, 5, 3))
    subject = TorchSubject(module)
    weights = subject.weights(snapshot(module))
    found = {path: subject.as_matrix(path, value) for path, value in weights.items()}
    assert {path: m.shape for path, m in found.items() if m is not None} == {
        "linear/weight": (5, 3), "conv/weight": (6, 18), "back/weight": (6, 4),
        "attention/in_proj_weight": (12, 4), "attention/out_proj/weight": (4, 4),
        "lstm/weight_ih_l0": (8, 3), "lstm/weight_hh_l0": (8, 2),
        "weighed/parametrizations/weight/original1": (5, 3),
    }  # fmt: skip
    matrix = found["conv/weight"]
    assert matrix is not None
    np.testing.assert_array_equal(matrix[5], weights["conv/weight"][5].ravel())


def test_a_row_of_a_transposed_convolution_times_its_inputs_is_an_output():
    module = nn.ConvTranspose1d(4, 6, 2, groups=2, bias=False)
    subject, x = TorchSubject(module), torch.randn(1, 4, 1)
    matrix = subject.as_matrix("weight", subject.weights(module)["weight"])
    assert matrix is not None
    inputs = x.numpy().reshape(2, 2).repeat(3, axis=0)  # (out, in of its group)
    product = np.einsum("oiw,oi->ow", matrix.reshape(6, 2, 2), inputs)  # over the window w
    np.testing.assert_allclose(module(x)[0].detach(), product, rtol=1e-5)
