# SPDX-License-Identifier: Apache-2.0
"""What a PyTorch module cannot be examined for is said in one sentence, with the path at fault."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unlazy.laziness import snapshot  # noqa: E402
from unlazy.laziness.subjects.adapters import from_torch  # noqa: E402
from unlazy.laziness.subjects.pytorch.subject import TorchSubject  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_shape_checker")
X = np.ones((3, 4), np.float32)


class Calls(nn.Linear):
    """A linear layer with something done to its outputs."""

    def __init__(self, after):
        super().__init__(4, 2)
        self.after = after

    def forward(self, input):
        return self.after(super().forward(input))


def mlp(*more):
    return nn.Sequential(nn.Linear(4, 4), *more, nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (nn.Dropout(0.5), "Dropout"),
        (nn.BatchNorm1d(4), "BatchNorm1d"),
        (nn.AlphaDropout(0.1), "AlphaDropout"),
        (nn.RReLU(), "RReLU"),
        (nn.GRU(4, 4, 2, dropout=0.1), "GRU"),
        (nn.MultiheadAttention(4, 2, dropout=0.1), "MultiheadAttention"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "InstanceNorm1d"),
    ],
)
def test_training_mode_is_refused_with_the_modules_named(part, name):
    module = mlp(part)
    with pytest.raises(ValueError, match=rf"`module` must be in evaluation mode.*1 \({name}\)"):
        TorchSubject(module)
    assert module.training
    TorchSubject(module.eval())


def test_training_mode_without_dropout_and_batch_normalisation_is_no_matter():
    module = mlp(nn.Dropout(0.0), nn.LayerNorm(4), nn.InstanceNorm1d(4)).train()
    assert TorchSubject(module).module.training


def test_batch_statistics_in_evaluation_mode_are_refused():
    module = mlp(nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with pytest.raises(ValueError, match=r"each row by itself.*1 \(BatchNorm1d\)"):
        TorchSubject(module)


def test_a_random_operation_is_refused_where_gradients_show_it():
    module = Calls(lambda z: F.dropout(z, 0.5, training=True))
    with pytest.raises(ValueError, match="`module` must compute the same at each call"):
        TorchSubject(module).layer_kernels(module, X, np.eye(2))


def test_what_is_no_module_is_refused():
    for wrong in (None, "text", lambda params, x: x @ params):
        with pytest.raises(TypeError, match=r"`module` must be a torch\.nn\.Module"):
            TorchSubject(wrong)
        with pytest.raises(TypeError, match=r"`module` must be a torch\.nn\.Module"):
            from_torch(wrong)
        with pytest.raises(TypeError, match=r"`module` must be a torch\.nn\.Module"):
            snapshot(wrong)
    assert from_torch(mlp()).where == "PyTorch on cpu"


def test_a_module_on_two_devices_or_without_shapes_is_refused():
    module = mlp()
    module[1] = module[1].to("meta")
    with pytest.raises(ValueError, match=r"on one device, got .*0/weight on cpu"):
        TorchSubject(module)
    with pytest.raises(ValueError, match="got a lazy parameter at 0/weight"):
        TorchSubject(nn.Sequential(nn.LazyLinear(3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("1.bias"), "`params` must hold every parameter.*got none at 1/bias"),
        (lambda s: s.update(other=s["1.bias"]), "must hold parameters of the module, got other,"),
        (
            lambda s: s.update({"1.bias": torch.zeros(3)}),
            r"the shape of the module's own tensors, got \(3,\), not \(2,\), at 1/bias",
        ),
        (
            lambda s: s.update({"1.bias": s["1.bias"].double()}),
            "the dtype .*, got torch.float64, not torch.float32, at 1/bias",
        ),
        (
            lambda s: s.update({"1.bias": s["1.bias"].to("meta")}),
            "the device .*, got meta, not cpu, at 1/bias",
        ),
        (
            lambda s: s.update({"1.bias": s["1.bias"] * torch.nan}),
            "`params` must be finite, got nan or inf at 1/bias",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_by_path(change, message):
    module = mlp()
    state = snapshot(module)
    change(state)
    with pytest.raises(ValueError, match=message):
        TorchSubject(module).outputs(state, X)
    with pytest.raises(ValueError, match=message.replace("`params`", "`end`")):
        TorchSubject(module).taylor_terms(module, state, X, 1)


def test_a_state_of_another_kind_is_refused():
    subject = TorchSubject(mlp())
    for wrong in (None, [1.0], {1: torch.zeros(2)}):
        with pytest.raises(TypeError, match="`params` must be the state of the module"):
            subject.weights(wrong)
    state = {name: value.numpy() for name, value in snapshot(subject.module).items()}
    with pytest.raises(TypeError, match=r"`params` must hold tensors, got .* at 0/weight"):
        subject.weights(state)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.zeros((0, 4)), ValueError, r"`x` must have shape \(n, ...\).*\(0, 4\)"),
        (np.float32(1), ValueError, r"`x` must have shape \(n, ...\)"),
        (np.full((2, 4), np.nan), ValueError, "`x` must be finite"),
        (np.array([["a"]]), TypeError, "`x` must be an array of numbers"),
        (None, TypeError, "`x` must be an array of numbers"),
    ],
)
def test_inputs_that_are_none_are_refused(x, error, message):
    module = mlp()
    with pytest.raises(error, match=message):
        TorchSubject(module).outputs(module, x)


def test_outputs_must_be_one_tensor_of_one_or_two_axes():
    tuples, long, few = (
        Calls(after) for after in (lambda z: (z, z), lambda z: z[..., None], lambda z: z[:1])
    )
    with pytest.raises(TypeError, match=r"must return one tensor.*got a tuple"):
        TorchSubject(tuples).outputs(tuples, X)
    for module, shape in ((long, r"\(3, 2, 1\)"), (few, r"\(1, 2\)")):
        with pytest.raises(ValueError, match=rf"with n=3, got {shape}"):
            TorchSubject(module).outputs(module, X)


def test_options_that_do_not_fit_are_refused():
    module = mlp()
    with pytest.raises(ValueError, match=r"`trained` must choose at least one .*: 0/weight"):
        TorchSubject(module, trained=lambda path: path == "2/weight")
    with pytest.raises(ValueError, match="`trained` must name parameters of the module, got 3/bi"):
        TorchSubject(module, trained={"3.bias": True})
    with pytest.raises(ValueError, match="`memory` must be an integer >= 1"):
        TorchSubject(module, memory=0)
    for order in (-1, 7, True):
        with pytest.raises(ValueError, match="`order` must be an integer"):
            TorchSubject(module).taylor_terms(module, module, X, order)
    with pytest.raises(ValueError, match=r"`directions` must have shape \(c, k\) with c=2"):
        TorchSubject(module).layer_kernels(module, X, np.eye(3))
