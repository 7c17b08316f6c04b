# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ResNet3
from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.linear_models import (
    LIMITS,
    conjugate_model,
    last_features,
    limit_model,
    parts,
    tangent_model,
)
from unlazy.papers.allenzhu_li2019.figures.samples import Task
from unlazy.papers.shared.grids.learner import MeanSquare, Samples, kernel_learner
from unlazy.papers.shared.grids.linear import Linear
from unlazy.papers.shared.grids.ridge import ridge_path
from unlazy.train import fit_grid

TASK = Task(24, 8, n_validation=10, n_test=20)
WIDTH = 10


@pytest.fixture(scope="module")
def split():
    return samples.draw(TASK, seed=3)


def prepared(layers, split):
    net = samples.network(layers, TASK, WIDTH)
    return net, samples.start(net, 3), tuple(part.x for part in split)


def options():
    return {"epochs": 4, "batch_size": 8, "drops": {2: 0.1}, "momentum": 0.9, "key": jr.key(0)}


def linearised(net, params0):
    """The network linearised at its start, as a function of the movement."""

    def f_L(moved, x):
        value, change = jax.jvp(lambda params: net(params, x), (params0,), (moved,))
        return value + change

    return f_L


@pytest.mark.slow
@pytest.mark.parametrize("layers", ["2layer", "3layer", "3resnet"])
def test_sgd_in_coupled_coefficients_is_sgd_on_the_linearised_network(layers, split):
    # The same batches, momentum and decay of the movement: the same path, to float32.
    net, params, inputs = prepared(layers, split)
    grid = {"learning_rates": [0.005, 0.02], "weight_decays": [0.0, 0.1]}
    direct = fit_grid(
        MeanSquare(linearised(net, params)),
        jax.tree.map(jnp.zeros_like, params),
        split.train,
        evaluate={"validation": split.validation, "test": split.test},
        **grid,
        **options(),
    )
    learner = kernel_learner([tangent_model(net, params, inputs)], [split])
    ours = learner.fit(
        *grid.values(), seeds=(0,), epochs=4, batch_size=8, progress=quiet, key=jr.key(0)
    )
    for name in ("train", "validation", "test"):
        np.testing.assert_allclose(ours.final(name), direct.final(name), rtol=2e-4)
    assert np.ptp(ours.final("test")) > 1e-2  # the settings matter


def quiet(done, total):
    del done, total


@pytest.mark.slow
def test_training_the_outer_weights_is_linear_in_features_that_keep_the_inner_ones(split):
    net, params, inputs = prepared("3resnet", split)
    grid = {"learning_rates": [0.01, 0.05], "weight_decays": [0.0, 0.1]}
    assert isinstance(net, ResNet3)
    f = net.last_layer(params)
    direct = fit_grid(
        MeanSquare(lambda A, x: f(A, x)),
        params.A,
        split.train,
        evaluate={"validation": split.validation, "test": split.test},
        **grid,
        **options(),
    )
    learner = kernel_learner([conjugate_model(net, params, inputs)], [split])
    ours = learner.fit(
        *grid.values(), seeds=(0,), epochs=4, batch_size=8, progress=quiet, key=jr.key(0)
    )
    np.testing.assert_allclose(ours.final("test"), direct.final("test"), rtol=2e-4)


@pytest.mark.parametrize(
    "layers",
    ["3resnet", *(pytest.param(plain, marks=pytest.mark.slow) for plain in ("2layer", "3layer"))],
)
def test_the_features_of_the_last_layer_give_the_outputs(layers, split):
    net, params, inputs = prepared(layers, split)
    A = params.A if layers == "3resnet" else params.a
    features = last_features(net, params, inputs[2])
    np.testing.assert_allclose(features @ A.T, net(params, inputs[2]), atol=1e-5)
    model = conjugate_model(net, params, inputs)
    np.testing.assert_allclose(model.start[2], net(params, inputs[2]), atol=1e-5)
    np.testing.assert_allclose(model.K[0], model.K[0].T, atol=1e-12)


@pytest.mark.slow
def test_the_kernel_for_all_outputs_is_the_mean_of_those_of_each(split):
    net, params, inputs = prepared("3resnet", split)
    model = tangent_model(net, params, inputs)
    assert model.coupled is not None
    for K, coupled, part in zip(model.K, model.coupled, split, strict=True):
        assert coupled.shape == (len(part.y), 4, 24, 4)
        np.testing.assert_allclose(np.einsum("icjc->ij", coupled) / 4, K, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.offset[1], net(params, inputs[1]), atol=1e-5)
    assert tangent_model(net, params, inputs, coupled=False).coupled is None


@pytest.mark.parametrize(
    "name",
    [
        name if name == "3resnet(NTK)" else pytest.param(name, marks=pytest.mark.slow)
        for name in LIMITS
    ],
)
def test_a_kernel_on_the_cube_is_a_list_of_numbers(name, split):
    model = limit_model(name, split)
    x = [np.asarray(part.x, np.float64) for part in split]
    np.testing.assert_allclose(model.K[2], np.asarray(LIMITS[name](x[2], x[0])), rtol=1e-10)
    np.testing.assert_allclose(model.K[0], np.asarray(LIMITS[name](x[0], None)), rtol=1e-10)


def test_ridge_adds_the_errors_of_several_outputs():
    rng = np.random.default_rng(0)
    phi = [rng.normal(size=(n, 6)) for n in (20, 30)]
    y = [rng.normal(size=(n, 3)) for n in (20, 30)]
    offset = [rng.normal(size=(n, 3)) for n in (20, 30)]
    K = tuple(features @ phi[0].T for features in phi)
    scales = np.array([1e-3, 1.0])
    model = Linear(K, tuple(offset), tuple(offset))
    omega, errors = ridge_path(model, tuple(y), scales)
    for i, w in enumerate(omega):
        gram = phi[0].T @ phi[0] + 10 * w * np.eye(6)  # N omega / 2 with N = 20
        theta = np.linalg.solve(gram, phi[0].T @ (y[0] - offset[0]))
        for found, features, o, labels in zip(errors, phi, offset, y, strict=True):
            expected = np.mean(np.sum((o + features @ theta - labels) ** 2, axis=1))
            assert found[i] == pytest.approx(expected, rel=1e-9)
    one = Linear(K, tuple(o[:, 0] for o in offset), tuple(o[:, 0] for o in offset))
    single = ridge_path(one, tuple(labels[:, 0] for labels in y), scales)[1][1]
    assert np.all(single < errors[1])


def test_the_loss_adds_the_errors_of_several_outputs():
    batch = Samples(jnp.ones((4, 2)), jnp.zeros((4, 3)))
    assert float(MeanSquare(lambda w, x: x @ w)(jnp.ones((2, 3)), batch)) == 12.0
    assert parts("3resnet(hidden)") == ("3resnet", "hidden")
