# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module under examination: every answer by a second route, and the module untouched."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unlazy.laziness import snapshot  # noqa: E402
from unlazy.laziness.subjects.pytorch.modules import is_torch_module  # noqa: E402
from unlazy.laziness.subjects.pytorch.subject import TorchSubject  # noqa: E402


class Encoder(nn.Module):
    def __init__(self, activation="gelu"):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, activation=activation)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.block(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(4, 3, batch_first=True)
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        return self.last(self.cell(x)[0][:, -1])


class Tied(nn.Module):
    """One weight, used twice, under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x))).sum(-1)


class Normalised(nn.Module):
    """Every normalisation, and a gated unit."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.instance = nn.InstanceNorm2d(4, affine=True)
        self.batch, self.group = nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.layer = nn.LayerNorm([4, 4, 4])

    def forward(self, x):
        x = self.group(torch.tanh(self.batch(self.instance(self.conv(x)))))
        return F.glu(self.layer(x).flatten(1), -1)[:, :2]


def mlp(activation=None):
    activation = nn.Tanh() if activation is None else activation
    return nn.Sequential(nn.Linear(4, 5), activation, nn.Linear(5, 3), activation, nn.Linear(3, 2))


MODELS = {
    "MLP": (mlp, (4,)),
    "transformer": (Encoder, (3, 4)),
    "recurrent": (Recurrent, (3, 4)),
    "tied weights": (Tied, (4,)),
    "normalised CNN": (Normalised, (2, 6, 6)),
}


def problem(name="MLP", n=4, scale=0.05, seed=0):
    """A module in float64 and evaluation mode, its state, another one near, and inputs."""
    torch.manual_seed(seed)
    make, shape = MODELS[name] if isinstance(name, str) else name
    module = make().double().eval()
    start = snapshot(module)
    end = {k: v + scale * torch.rand_like(v) if v.is_floating_point() else v.clone()
           for k, v in start.items()}  # fmt: skip
    for k in [k for k in end if k == "second.weight"]:
        end[k] = end["first.weight"]
    return module, start, end, np.random.default_rng(seed).standard_normal((n, *shape))


def jacobians(module, x):
    """The Jacobian per parameter, (n, c, p), by one backward pass per output."""
    params = dict(module.named_parameters())
    outputs = module(torch.as_tensor(x)).reshape(len(x), -1)
    rows = [
        torch.autograd.grad(out, list(params.values()), retain_graph=True)
        for out in outputs.flatten()
    ]
    return {
        name: torch.stack([row[i].flatten() for row in rows]).numpy().reshape(*outputs.shape, -1)
        for i, name in enumerate(params)
    }


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_layers_are_those_of_the_jacobians(name, sign):
    module, start, _, x = problem(name)
    subject = TorchSubject(module)
    directions = np.random.default_rng(1).standard_normal((subject.outputs(start, x).shape[1], 2))
    found = subject.layer_kernels(start, x, directions, sign=sign)
    expected = {}
    for key, jac in jacobians(module, x).items():
        J = np.einsum("ncp,ck->knp", jac, directions)
        J = np.sign(np.where(np.abs(J) > 1e-14, J, 0)) if sign else J
        layer = key.rpartition(".")[0].replace(".", "/")
        expected[layer] = expected.get(layer, 0) + np.einsum("knp,kmp->nm", J, J)
    assert list(found) == list(expected)
    if sign and name in ("transformer", "normalised CNN"):
        return  # biases before a mean that is taken off have zero gradients, of either sign
    for layer, K in found.items():
        np.testing.assert_allclose(K, expected[layer], rtol=1e-9, atol=1e-12)


def test_kernels_are_the_same_however_little_memory_there_is():
    module, start, _, x = problem()
    expected = TorchSubject(module).layer_kernels(start, x, np.eye(2))
    for memory in (1, 500, 2000):  # from one entry at a time to some layers
        found = TorchSubject(module, memory=memory).layer_kernels(start, x, np.eye(2))
        for layer, K in found.items():
            np.testing.assert_allclose(K, expected[layer], rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_taylor_terms_are_the_coefficients_of_the_outputs_on_the_line(name):
    module, start, end, x = problem(name, n=3)
    subject = TorchSubject(module)
    terms = subject.taylor_terms(start, end, x, 3)
    # A polynomial through Chebyshev nodes, whose own error is far below the tolerance.
    t = 0.3 * np.cos(np.pi * np.arange(11) / 10)

    def at(t):
        return {k: v + t * (end[k] - v) if v.is_floating_point() else v for k, v in start.items()}

    values = np.stack([subject.outputs(at(s), x).ravel() for s in t])
    coefficients = np.linalg.solve(np.vander(t, increasing=True), values)[:4]
    np.testing.assert_allclose(terms.reshape(4, -1), coefficients, rtol=1e-4, atol=1e-7)


def test_the_terms_of_a_polynomial_network_add_up_to_it_and_end():
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(2, 2)).double()
    start = snapshot(linear)
    end = {k: v + torch.rand_like(v) for k, v in start.items()}
    subject, x = TorchSubject(linear), np.random.default_rng(0).standard_normal((5, 4))
    terms = subject.taylor_terms(start, end, x, 4)
    np.testing.assert_allclose(terms.sum(0), subject.outputs(end, x), rtol=1e-12)
    assert np.abs(terms[3]).max() > 0.1
    assert np.abs(terms[4]).max() < 1e-12


def test_terms_move_trained_parameters_and_statistics_alone():
    module, start, end, x = problem("normalised CNN")
    subject = TorchSubject(module, trained=lambda path: path.startswith("conv/"))
    moves = {"conv." + k for k in ("weight", "bias")} | {k for k, _ in module.named_buffers()}
    moved = {k: end[k] if k in moves else v for k, v in start.items()}
    expected = TorchSubject(module).taylor_terms(start, moved, x, 2)
    np.testing.assert_allclose(subject.taylor_terms(start, end, x, 2), expected, atol=1e-15)


def test_a_second_derivative_that_pytorch_gets_wrong_is_refused(monkeypatch):
    from unlazy.laziness.subjects.pytorch import taylor as torch_taylor

    module, start, end, x = problem("transformer", scale=0.5)
    monkeypatch.setattr(torch_taylor, "_FORMULAS", {})  # as PyTorch computes by itself
    with pytest.raises(ValueError, match="`module` must consist of operations whose second deriv"):
        TorchSubject(module).taylor_terms(start, end, x, 2)
    first = TorchSubject(module).taylor_terms(start, end, x, 1)
    monkeypatch.undo()
    np.testing.assert_allclose(first, TorchSubject(module).taylor_terms(start, end, x, 1))


def test_nothing_in_the_module_or_in_pytorch_is_changed():
    module, start, end, x = problem("normalised CNN")
    before, hooks = snapshot(module), [dict(part._forward_hooks) for part in module.modules()]

    def settings():
        return (
            *(torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
            *(torch.backends.mha.get_fastpath_enabled(), torch.backends.cudnn.enabled),
            *(torch.backends.cuda.flash_sdp_enabled(), torch.is_grad_enabled()),
        )

    saved = settings()
    subject = TorchSubject(module)
    subject.taylor_terms(start, end, x, 1)
    subject.active_units(end, x)
    subject.layer_kernels(end, x, np.eye(2)[:, :1])
    with pytest.raises(ValueError, match="must end in an nn"):
        subject.last_features(end, x)
    assert settings() == saved
    assert [dict(part._forward_hooks) for part in module.modules()] == hooks
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())


def test_products_are_in_full_float32_inside():
    from unlazy.laziness.subjects.pytorch.settings import exact

    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        with exact(nn.GRU(2, 2)):
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
            assert torch.backends.cudnn.conv.fp32_precision == "ieee"
            assert not torch.backends.cudnn.enabled
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def test_a_snapshot_stays_and_a_state_dict_moves():
    module, _, _, x = problem()
    live, kept = module.state_dict(), snapshot(module)
    with torch.no_grad():
        module[0].weight += 1
    assert torch.equal(live["0.weight"], module[0].weight)
    np.testing.assert_allclose(kept["0.weight"] + 1, module[0].weight.detach())
    subject = TorchSubject(module)
    np.testing.assert_array_equal(subject.outputs(module, x), subject.outputs(live, x))


def test_inputs_come_from_numpy_jax_and_pytorch_and_tokens_stay_integers():
    module, start, _, x = problem()
    subject = TorchSubject(module)
    expected = subject.outputs(start, torch.as_tensor(x))
    x32 = x.astype(np.float32)
    for given in (x, x.tolist(), np.asfortranarray(x)):
        np.testing.assert_allclose(subject.outputs(start, given), expected, rtol=1e-12)
    readonly = x32.copy()
    readonly.flags.writeable = False
    for given in (x32, jnp.asarray(x32), readonly, torch.as_tensor(x32)):
        np.testing.assert_allclose(subject.outputs(start, given), expected, atol=1e-6)
    words = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 2)).eval()
    tokens = np.arange(6).reshape(2, 3)
    subject = TorchSubject(words)
    K = subject.layer_kernels(words, tokens, np.eye(2))
    assert subject.outputs(words, tokens).shape == (2, 2)
    assert K["0"][0, 1] == 0  # the rows share no token
    assert subject.outputs(words, jnp.asarray(tokens)).shape == (2, 2)


def test_half_precision_is_examined_in_its_own_dtype():
    module = mlp().to(torch.bfloat16).eval()
    x = np.random.default_rng(0).standard_normal((3, 4))
    subject = TorchSubject(module)
    K = subject.layer_kernels(module, x, np.eye(2))
    wide = mlp().eval()
    wide.load_state_dict({k: v.float() for k, v in module.state_dict().items()})
    expected = TorchSubject(wide).layer_kernels(wide, x, np.eye(2))
    for layer in K:
        np.testing.assert_allclose(K[layer], expected[layer], rtol=0.1, atol=0.02)


def test_trained_are_those_that_require_gradients_or_are_chosen():
    module, start, _, _ = problem()
    module[0].weight.requires_grad_(False)

    def paths(trained):
        return list(TorchSubject(module, trained=trained).weights(start))

    assert paths(None) == ["0/bias", "2/weight", "2/bias", "4/weight", "4/bias"]
    assert paths(lambda path: path.endswith("weight")) == ["0/weight", "2/weight", "4/weight"]
    assert paths({"0.weight": True, "4/bias": True, "2/bias": False}) == ["0/weight", "4/bias"]


def test_a_compiled_module_is_the_module_itself():
    module, start, _, x = problem()
    compiled = torch.compile(module, backend="eager")
    expected = TorchSubject(module).outputs(start, x)
    for params in (start, compiled.state_dict(), compiled, snapshot(compiled)):
        np.testing.assert_array_equal(TorchSubject(compiled).outputs(params, x), expected)


def test_a_module_is_recognised_without_importing_pytorch():
    assert is_torch_module(mlp())
    assert not is_torch_module(torch.zeros(2))
    assert not is_torch_module(len)


def test_the_terms_carry_their_factorials():
    class Exponential(nn.Linear):
        def forward(self, input):
            return super().forward(input).exp()

    module = nn.Sequential(Exponential(1, 1, bias=False)).double()
    start, end = {"0.weight": torch.zeros(1, 1).double()}, {"0.weight": torch.ones(1, 1).double()}
    terms = TorchSubject(module).taylor_terms(start, end, np.ones((1, 1)), 5)
    np.testing.assert_allclose(terms.ravel(), [1 / math.factorial(k) for k in range(6)])
