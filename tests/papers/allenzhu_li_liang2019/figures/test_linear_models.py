# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import taylor
from unlazy.papers.allenzhu_li_liang2019.figures import samples
from unlazy.papers.shared.grids.learner import MeanSquare, Samples
from unlazy.papers.shared.grids.linear import (
    Coefficients,
    FunctionalSquare,
    Rows,
    linear_model,
    mean_square,
)
from unlazy.papers.shared.grids.ridge import ridge_path
from unlazy.train import fit_grid

WIDTH = 12


@pytest.fixture(scope="module")
def split():
    return samples.draw("composed-sines", 30, 10, 20, seed=3)


def wide_params(layers):
    net = samples.network(layers, WIDTH)
    params = net.init(key=samples.keys(3).init)
    return net, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)


def layers_of(layers, params, x) -> list:
    """The matrices of LG-10 to LG-12: S, D of the first layer, then those of the second."""
    Z = x @ params.W.T + (params.b if layers == 2 else params.b1)
    S, D = np.maximum(Z, 0), (Z >= 0).astype(float)
    if layers == 2:
        return [S, D]
    Z2 = S @ params.V.T + params.b2
    return [S, D, np.maximum(Z2, 0), (Z2 >= 0).astype(float)]


def closed_kernel(layers, part, params, x1, x2):
    first, second = layers_of(layers, params, x1), layers_of(layers, params, x2)
    if part == "last":
        return first[-2] @ second[-2].T
    a = params.a
    if layers == 2:
        return (x1 @ x2.T) * ((first[1] * a**2) @ second[1].T)
    A1, A2 = (((each[3] * a) @ params.V) * each[1] for each in (first, second))
    outer = (first[0] @ second[0].T) * ((first[3] * a**2) @ second[3].T)
    return outer + (x1 @ x2.T) * (A1 @ A2.T)


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("part", ["weights", "last"])
def test_the_kernels_are_the_closed_forms(layers, part, split):
    net, params = wide_params(layers)
    model = linear_model(net, params, part, tuple(each.x for each in split))
    x = [np.asarray(each.x, np.float64) for each in split]
    for K, inputs in zip(model.K, x, strict=True):
        expected = closed_kernel(layers, part, params, inputs, x[0])
        np.testing.assert_allclose(K, expected, rtol=1e-10, atol=1e-12)


def test_the_linear_model_in_the_last_layer_has_no_offset(split):
    layers = 3
    net, params = wide_params(layers)
    model = linear_model(net, params, "last", tuple(each.x for each in split))
    for offset, start, part in zip(model.offset, model.start, split, strict=True):
        S = layers_of(layers, params, np.asarray(part.x, np.float64))[-2]
        np.testing.assert_allclose(start, S @ params.a, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(offset, 0, atol=1e-12)


def tangent(net, params):
    """The linearised network by a forward derivative; it compiles faster than a Taylor model."""

    def f_L(new, x):
        delta = jax.tree.map(jnp.subtract, new, params)
        value, change = jax.jvp(lambda params: net(params, x), (params,), (delta,))
        return value + change

    return f_L


@pytest.mark.parametrize(("layers", "part"), [(2, "weights"), (3, "weights"), (3, "last")])
def test_sgd_in_coefficients_is_sgd_on_the_linearised_network(layers, part, split, x64):
    # The same batches, momentum and decay on all of theta: the very same path, in float64.
    net, params = wide_params(layers)
    params = jax.tree.map(jnp.asarray, params)
    wide = [Samples(*(jnp.asarray(leaf, jnp.float64) for leaf in each)) for each in split]
    options = {
        "learning_rates": [0.02, 0.05] if part == "weights" else [0.2, 0.5],
        "weight_decays": [0.0, 0.03],
        "epochs": 6,
        "batch_size": 7,
        "drops": {3: 0.1},
        "key": jr.key(0),
    }
    linearised = {2: lambda: taylor.linearize(net, params), 3: lambda: tangent(net, params)}
    model_function = linearised[layers]() if part == "weights" else net
    direct = fit_grid(
        MeanSquare(model_function),
        params,
        wide[0],
        trained=part,
        evaluate={"test": wide[2]},
        **options,
    )
    model = linear_model(net, params, part, tuple(each.x for each in wide))
    rows = [
        Rows(model.K[i], np.arange(len(wide[i].y)), model.offset[i], model.start[i], wide[i].y)
        for i in range(3)
    ]
    ours = fit_grid(
        FunctionalSquare(),
        Coefficients(jnp.ones(()), jnp.zeros(30)),
        rows[0],
        evaluate={"test": rows[2]},
        metric=mean_square,
        **options,
    )
    assert np.isfinite(ours.final("test")).all()
    np.testing.assert_allclose(ours.final("test"), direct.final("test"), rtol=1e-8)
    np.testing.assert_allclose(ours.loss, direct.loss, rtol=1e-8)
    assert np.ptp(ours.final("test")) > 1e-3  # the settings matter


def test_the_ridge_path_solves_the_normal_equations(split):
    layers = 3
    # In the features themselves, where the minimiser of mean square + omega/2 |a|^2 is explicit.
    net, params = wide_params(layers)
    model = linear_model(net, params, "last", tuple(each.x for each in split))
    labels = tuple(np.asarray(each.y, np.float64) for each in split)
    omegas, errors = ridge_path(model, labels, np.array([1e-4, 1e-1]))
    x = [np.asarray(each.x, np.float64) for each in split]
    S = [layers_of(layers, params, inputs)[-2] for inputs in x]
    for i, omega in enumerate(omegas):
        gram = 2 * S[0].T @ S[0] / len(S[0]) + omega * np.eye(WIDTH)
        a = np.linalg.solve(gram, 2 * S[0].T @ labels[0] / len(S[0]))
        for found, features, y in zip(errors, S, labels, strict=True):
            assert found[i] == pytest.approx(np.mean((features @ a - y) ** 2), rel=1e-7)


def test_long_training_reaches_the_ridge_solution(split, x64):
    # With decay on the full parameter, from W0: only then do both minimise the same function.
    net, params = wide_params(3)
    model = linear_model(net, params, "weights", tuple(each.x for each in split))
    labels = tuple(np.asarray(each.y, np.float64) for each in split)
    omegas, errors = ridge_path(model, labels, np.array([1.0]))
    top = np.linalg.eigvalsh(model.K[0])[-1]
    row = [
        Rows(model.K[i], np.arange(len(labels[i])), model.offset[i], model.start[i], labels[i])
        for i in (0, 2)
    ]
    trained = fit_grid(
        FunctionalSquare(),
        Coefficients(jnp.ones(()), jnp.zeros(30)),
        row[0],
        learning_rates=[len(labels[0]) / top],
        weight_decays=omegas,
        epochs=3000,
        evaluate={"test": row[1]},
        metric=mean_square,
    )
    assert trained.final("train").item() == pytest.approx(errors[0][0], rel=1e-6)
    assert trained.final("test").item() == pytest.approx(errors[2][0], rel=1e-6)
    # A start without W0, that is a decay of the movement alone, would end elsewhere.
    shifted = np.mean((model.offset[2] + model.start[2] - labels[2]) ** 2)
    assert abs(errors[2][0] - shifted) > 1e-3
