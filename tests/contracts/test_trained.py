# SPDX-License-Identifier: Apache-2.0
"""One meaning of `trained`, for every public function that takes it."""

import importlib
import inspect

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy import curvature, escape, kernels, laziness, nets, train
from unlazy.losses import pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.train import MeanLoss

from .test_public_surface import PACKAGES

NET = TwoLayer(2, 3, "tanh")
LOSS = MeanLoss(NET, pointwise("half-squared"))
RULE = optax.sgd(0.1)
PARAMS = TwoLayerParams(W=jnp.arange(6.0).reshape(3, 2) / 3, a=jnp.array([1.0, -1.0, 0.5]))
X = jnp.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 0.3], [0.2, 0.9]])
DATA = (X, jnp.array([1.0, -1.0, 0.5, 2.0]))
V = jax.tree.map(jnp.ones_like, PARAMS)
END = jax.tree.map(lambda leaf: leaf + 0.1, PARAMS)


def after_training(trainer, **options):
    return lambda trained: trainer(LOSS, PARAMS, DATA, trained=trained, **options).params


def of_network(function):
    return lambda trained: function(NET, PARAMS, X, trained=trained)


def made(width, key):
    net = TwoLayer(2, width, "tanh")
    return net, net.init(key=key)


CALLS = {
    "escape.direction_penalty": lambda trained: (
        escape.direction_penalty(NET, PARAMS, X, rank=1, trained=trained).spectrum
    ),
    "kernels.empirical_ntk": of_network(kernels.empirical_ntk),
    "kernels.empirical_ntk_by_layer": of_network(kernels.empirical_ntk_by_layer),
    "kernels.empirical_ntk_diagonal": of_network(kernels.empirical_ntk_diagonal),
    "kernels.empirical_ntk_traced": of_network(kernels.empirical_ntk_traced),
    "kernels.empirical_operator": lambda trained: kernels.empirical_operator(
        NET, PARAMS, X, trained=trained
    ).matvec(np.ones(4)),
    "kernels.gradient_sketch": lambda trained: kernels.gradient_sketch(
        NET, PARAMS, X, 5, trained=trained, key=jr.key(0)
    ),
    "curvature.certify": lambda trained: (
        curvature.certify(
            LOSS, PARAMS, data=DATA, trained=trained, key=jr.key(0)
        ).curvature.smallest
    ),
    "curvature.extreme_eigenvalues": lambda trained: (
        curvature.extreme_eigenvalues(
            LOSS, PARAMS, data=DATA, trained=trained, key=jr.key(0)
        ).largest
    ),
    "curvature.hvp": lambda trained: curvature.hvp(LOSS, PARAMS, V, data=DATA, trained=trained),
    "laziness.diagnose": lambda trained: (
        laziness.diagnose(NET, PARAMS, END, X, trained=trained, order=1).kernel_end
    ),
    "laziness.output_scale_sweep": lambda trained: (
        laziness.output_scale_sweep(
            NET, PARAMS, DATA, gammas=[1.0], learning_rates=[0.1], epochs=1, trained=trained
        ).movement
    ),
    "laziness.width_check": lambda trained: (
        laziness.width_check(
            *(made, [3, 6], X, DATA[1]), steps=1, seeds=1, trained=trained, key=jr.key(0)
        ).movement
    ),
    "nets.partition": lambda trained: nets.partition(PARAMS, trained)[0],
    "train.fit": after_training(train.fit, optimizer=RULE, steps=1),
    "train.fit_grid": lambda trained: (
        train.fit_grid(LOSS, PARAMS, DATA, learning_rates=[0.1], epochs=1, trained=trained)
        .best("train")
        .params
    ),
    "train.noisy_sgd": after_training(train.noisy_sgd, steps=1, learning_rate=0.1, key=jr.key(0)),
    "train.perturbed_gradient_descent": after_training(
        train.perturbed_gradient_descent, steps=1, learning_rate=0.1, key=jr.key(0)
    ),
}
# Kernels of infinite width have no parameters to choose from: layers by name.
BY_LAYER = {
    *("kernels.ntk", "papers.allenzhu_li2019.resnet_ntk"),
    "papers.allenzhu_li2019.convolutional_kernel",
}


def functions_with(argument):
    for package in PACKAGES:
        module = importlib.import_module(f"unlazy.{package}")
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if inspect.isroutine(thing) and argument in inspect.signature(thing).parameters:
                yield f"{package}.{name}"


def test_every_public_function_that_takes_trained_is_here():
    assert set(functions_with("trained")) == set(CALLS) | BY_LAYER


@pytest.mark.parametrize("name", CALLS)
def test_names_booleans_and_functions_of_the_path_mean_the_same(name):
    call = CALLS[name]
    hidden, mask = call("hidden"), jax.tree.map(lambda leaf: leaf.ndim == 2, PARAMS)
    for trained in ("weights", mask, lambda path: path == "W"):
        jax.tree.map(np.testing.assert_array_equal, call(trained), hidden)
    if name.startswith("train."):
        assert np.all(hidden.a == PARAMS.a)
        assert np.any(hidden.W != PARAMS.W)


def test_nothing_named_means_everything():
    for trained in (None, "all", True, str):  # the last is a function that is true of every path
        trainable, frozen = nets.partition(PARAMS, trained)
        assert trainable.W is PARAMS.W
        assert trainable.a is PARAMS.a
        assert jax.tree.leaves(frozen) == []


@pytest.mark.parametrize("name", CALLS)
def test_what_does_not_fit_is_refused_in_the_same_words(name, no_shape_checker):
    for trained, words in {
        "hiden": r"`trained` must be a known name, got trained='hiden'. Did you mean 'hidden'\?",
        (True, False, True): "`trained` must be booleans in the structure of `params`, got another",
        3: "`trained` must be None, a name, booleans in the structure of `params` or a function",
        False: "`trained` must choose at least one floating-point array of `params`, got trained=F",
    }.items():
        with pytest.raises(ValueError, match=words):
            CALLS[name](trained)
