# SPDX-License-Identifier: Apache-2.0
"""A function that has changed is compiled anew, and one that has not is not."""

import dataclasses
import functools
import types
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core.current import Current, current, program_of, unwrapped
from unlazy.losses import SquaredError
from unlazy.nets import TwoLayer
from unlazy.taylor import expand

W, X = jr.normal(jr.key(0), (3, 2)), jr.normal(jr.key(1), (4, 3))
ALPHA = 1.5
SCALES = jnp.array([1.0, 2.0])


def scaled(z):
    return ALPHA * z


def global_number():
    def change():
        globals()["ALPHA"] += 1.0

    return lambda w, x: ALPHA * jnp.tanh(x @ w), change


def global_array_replaced():
    def change():
        globals()["SCALES"] = SCALES + 1.0

    return lambda w, x: jnp.tanh(x @ w) * SCALES[None], change


def cell():
    alpha = 1.0

    def change():
        nonlocal alpha
        alpha = 3.0

    return lambda w, x: alpha * jnp.tanh(x @ w), change


def attribute():
    config = types.SimpleNamespace(alpha=1.0)
    return lambda w, x: config.alpha * (x @ w), lambda: setattr(config, "alpha", 2.0)


def attribute_of_a_module():
    module = types.ModuleType("settings")
    vars(module)["power"] = 1
    return lambda w, x: (x @ w) ** module.power, lambda: vars(module).update(power=3)


class Mutable:
    def __init__(self):
        self.alpha = 1.0

    def outputs(self, w, x):
        return self.alpha * (x @ w)


def bound_method():
    made = Mutable()
    return made.outputs, lambda: setattr(made, "alpha", -1.0)


def callable_without_a_hash():
    @dataclasses.dataclass  # one that compares its fields has no hash
    class Unhashable:
        alpha: float = 1.0

        def __call__(self, w, x):
            return self.alpha * (x @ w)

    made = Unhashable()
    return made, lambda: setattr(made, "alpha", -1.0)


class Linear(NamedTuple):
    bias: float = 1.0

    def __call__(self, w, x):
        return ALPHA * (x @ w) + self.bias


def named_tuple():
    return Linear(), lambda: globals().update(ALPHA=ALPHA + 1.0)


def entry_of_a_dict():
    options = {"alpha": 1.0}
    return lambda w, x: options["alpha"] * (x @ w), lambda: options.update(alpha=2.0)


def entry_of_a_list():
    layers = [jnp.tanh, jnp.sin]
    return lambda w, x: layers[1](layers[0](x @ w)), lambda: layers.reverse()


def numpy_array_in_place():
    mask = np.ones((4, 2), np.float32)
    return lambda w, x: jnp.tanh(x @ w) * mask, lambda: mask.__setitem__((2, 1), 0)


def numpy_number_in_place():
    alpha = np.ones((), np.float32)
    return lambda w, x: alpha * (x @ w), lambda: alpha.__setitem__((), 2)


def helper_replaced():
    helpers = types.SimpleNamespace(activation=jnp.tanh)
    return (
        lambda w, x: helpers.activation(x @ w),
        lambda: setattr(helpers, "activation", jnp.sin),
    )


def globals_of_a_helper():
    def change():
        globals()["ALPHA"] *= 2.0

    return lambda w, x: scaled(x @ w), change


def partial():
    options = {"alpha": 1.0}
    f = functools.partial(lambda options, w, x: options["alpha"] * (x @ w), options)
    return f, lambda: options.update(alpha=0.5)


def body_of_a_loop():
    state = {"alpha": 0.5}

    def f(w, x):
        return jax.lax.scan(lambda c, row: (state["alpha"] * c + row @ w, c), jnp.zeros(2), x)[1]

    return f, lambda: state.update(alpha=0.25)


def branch():
    state = {"slope": 0.5}

    def f(w, x):
        z = x @ w
        return jax.lax.cond(jnp.sum(z) > 1e6, lambda: z, lambda: state["slope"] * z)

    return f, lambda: state.update(slope=0.1)


CHANGES = [
    *(
        global_number,
        global_array_replaced,
        cell,
        named_tuple,
        attribute,
        attribute_of_a_module,
        bound_method,
    ),
    *(callable_without_a_hash, entry_of_a_dict, entry_of_a_list, numpy_array_in_place),
    *(numpy_number_in_place, helper_replaced, globals_of_a_helper, partial, body_of_a_loop, branch),
]


class Compiled:
    """`operation(f, w, x)`, compiled for each function as it is, with the number of programs."""

    def __init__(self, operation=lambda f, w, x: f(w, x)):
        self.count = 0

        def counted(f, w, x):
            self.count += 1
            return operation(f, w, x)

        self.jitted = eqx.filter_jit(counted)

    def __call__(self, f, w=W, x=X):
        return self.jitted(current(f, w, x), w, x)


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.__name__)
def test_a_change_is_seen_and_a_second_call_compiles_nothing(case):
    f, change = case()
    run = Compiled()
    before = run(f)
    np.testing.assert_array_equal(run(f), before)
    assert run.count == 1
    change()
    after = run(f)
    np.testing.assert_allclose(after, f(W, X), rtol=1e-6)
    assert not np.allclose(after, before)
    run(f)
    assert run.count == 2


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_a_change_is_seen_within_transformations_of_the_user(transform):
    f, change = cell()
    run = Compiled()

    def total(w):
        return jnp.sum(run(f, w))

    def transformed(w):
        if transform == "grad":
            return jax.grad(total)(w)
        mapped = jax.jit(lambda w: total(w)) if transform == "jit" else jax.vmap(total)
        return mapped(w if transform == "jit" else jnp.stack([w, 2 * w]))

    before = transformed(W)
    change()
    np.testing.assert_allclose(transformed(W), 3.0 * before, rtol=1e-5)


def test_a_function_of_traced_arrays_is_no_error():
    run = Compiled()
    slopes = jax.jit(jax.grad(lambda a: jnp.sum(run(lambda w, x: a * (x @ w)))))
    np.testing.assert_allclose(slopes(2.0), jnp.sum(X @ W), rtol=1e-5)


@jax.custom_jvp
def bent(z):
    return 2 * z


@bent.defjvp
def _bent_jvp(primals, tangents):
    return bent(*primals), ALPHA * tangents[0]


def pulled_back():
    @jax.custom_vjp
    def function(z):
        return 2 * z

    function.defvjp(lambda z: (function(z), z), lambda z, g: (ALPHA * g * z,))
    return function


@pytest.mark.parametrize("function", [bent, pulled_back()], ids=["jvp", "vjp"])
def test_a_changed_rule_of_a_derivative_is_seen(function):
    run = Compiled(lambda f, w, x: jax.grad(lambda w: jnp.sum(f(w, x)))(w))

    def f(w, x):
        return function(x @ w)

    before = run(f)
    run(f)
    assert run.count == 1
    globals()["ALPHA"] *= 4.0
    np.testing.assert_allclose(run(f), 4.0 * before, rtol=1e-6)
    assert run.count == 2


def flax_model():
    linen = pytest.importorskip("flax.linen")
    model = linen.Sequential([linen.Dense(4), linen.relu, linen.Dense(2)])
    return model.apply, model.init(jr.key(2), X)


def equinox_model():
    model = eqx.nn.MLP(3, 2, width_size=4, depth=2, activation=jax.nn.gelu, key=jr.key(2))
    return lambda model, x: jax.vmap(model)(x), model


def of_weights(function):
    return lambda: (lambda w, x: function(x @ w), W)


KEY, LARGE = jr.key(3), np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2)
MODELS = {
    "constant": of_weights(lambda z: z * jnp.array([[1.0, 2.0]])),
    "numpy": of_weights(lambda z: z * LARGE),
    "computed": of_weights(lambda z: z * jnp.asarray(LARGE) * jnp.arange(2.0)[None]),
    "relu": of_weights(jax.nn.relu),
    "gelu": of_weights(jax.nn.gelu),
    "logsumexp": of_weights(lambda z: jax.nn.logsumexp(z, axis=1)),
    "scan": lambda: (body_of_a_loop()[0], W),
    "noise": of_weights(lambda z: z + jr.normal(KEY, z.shape)),
    "new key": of_weights(lambda z: z + jr.normal(jr.key(7), z.shape)),
    "own rule": of_weights(bent),
    "own reverse rule": of_weights(lambda z: pulled_back()(z)),
    "print": of_weights(lambda z: (jax.debug.callback(print, z), z)[1]),
    "sorted": of_weights(lambda z: jnp.sort(z, axis=0)),
    "solve": of_weights(lambda z: jnp.linalg.solve(jnp.eye(4) + z @ z.T, z)),
    "checkpoint": of_weights(jax.checkpoint(jnp.sin)),
    "flax": flax_model,
    "equinox": equinox_model,
    "taylor": lambda: (expand(lambda w, x: jnp.sin(x @ w), W, 2), 2 * W),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_does_not_change_has_one_program(name):
    f, params = MODELS[name]()
    run = Compiled()
    first = run(f, params)
    params = jax.tree.map(lambda leaf: 2 * leaf if eqx.is_inexact_array(leaf) else leaf, params)
    second = run(f, params, X + 1)
    assert run.count == 1
    np.testing.assert_allclose(second, f(params, X + 1), rtol=1e-4, atol=1e-5)
    assert not np.allclose(first, second)


def test_functions_that_compute_the_same_stay_apart():
    # They may differ at other shapes, and a rule of the host does not show in a trace.
    one, two = (Current(f, program_of(f, W, X)) for f in (lambda w, x: x @ w, lambda w, x: x @ w))
    assert one.program == two.program
    assert not eqx.tree_equal(one, two)


def test_programs_differ_where_only_a_constant_the_wiring_or_a_shape_does():
    def swapped(w, x):
        return x @ (w[:, ::-1])

    functions = [
        *(lambda w, x: x @ w - 1.0, lambda w, x: 1.0 - x @ w, lambda w, x: x @ w - 2.0),
        *(lambda w, x: x @ w - jnp.ones((4, 2)), swapped, lambda w, x: (x @ w, x)),
    ]
    programs = {program_of(f, W, X) for f in functions} | {program_of(functions[0], W, X[:2])}
    assert len(programs) == 7


def test_a_function_that_fails_is_traced_where_it_is_used():
    state = {"fails": False}

    def f(w, x):
        if state["fails"]:
            raise ValueError("not today")
        return x @ w

    run = Compiled()
    run(f)
    state["fails"] = True
    with pytest.raises(ValueError, match="not today"):
        run(f)


def test_arrays_of_a_module_are_no_part_of_its_program():
    class Shifted(eqx.Module):
        shift: jax.Array

        def __call__(self, w, x):
            return x @ w + self.shift

    run = Compiled()
    values = [run(Shifted(jnp.full((1, 2), shift))) for shift in (0.0, 1.0)]
    assert run.count == 1
    np.testing.assert_allclose(values[1] - values[0], 1.0, rtol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "quadratic"])
def test_a_learner_of_ours_is_returned_as_it_is(activation):
    net = TwoLayer(inputs=3, width=4, activation=activation)
    assert current(net, net.init(key=jr.key(0)), X) is net
    seen = current(SquaredError(lambda w, x: x @ w), W, (X, X @ W))
    assert isinstance(seen, Current)
    assert isinstance(unwrapped(seen), SquaredError)
