# SPDX-License-Identifier: Apache-2.0
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float, PRNGKeyArray

import unlazy as ul
from unlazy.core.checks import calling, check_name
from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError, UnknownNameError, UnlazyWarning, user_level
from unlazy.core.fitting import match_axes

pytestmark = pytest.mark.usefixtures("no_shape_checker")


@entry
def product(
    x: Float[Array | np.ndarray, "n d"],
    y: Float[Array | np.ndarray, "n *c"],
    *,
    power: int | float = 1,
    function: Callable[..., Array] = jnp.sin,
    names: Sequence[str] | None = None,
    key: PRNGKeyArray | None = None,
):
    """A function without a check of its own."""
    del key
    return x.T @ function(y) ** power, [name.upper() for name in names or ()]


X, Y = np.ones((3, 2)), np.ones(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": None}, r"`x` must be an array of numbers of shape \(n, d\), got x=None"),
        ({"x": [["a", "b"]]}, r"`x` must be an array of numbers of shape \(n, d\)"),
        ({"x": X + 0j, "power": "a"}, r"`x` must be an array of numbers"),
        ({"x": X[0], "y": 1.0}, r"`x` must have shape \(n, d\), got x.shape=\(2,\)"),
        ({"y": np.ones(4)}, r"`y` must have shape \(n, \*c\) with n=3 as in `x`"),
        ({"y": X.tolist()[:2]}, r"`y` must have shape .* got y.shape=\(2, 2\)"),
        ({"power": "two"}, "`power` must be a number, got power='two'"),
        ({"function": 3}, "`function` must be a function, got function=3"),
        ({"names": 3}, "`names` must be a sequence, each entry a string or None, got names=3"),
        ({"names": ["a", 3]}, r"`names` must be .* got names=\['a', 3\]"),
        ({"key": 3, "power": "two"}, "`power` must be"),
        ({"x": X.tolist()}, r"`x` must be an array, got a list. Pass jax.numpy.asarray\(x\)"),
        (
            {"x": X[:0], "function": jnp.linalg.cholesky, "y": Y[:0]},
            "`x` must be finite, not empty",
        ),
    ],
)
def test_a_failure_names_the_first_argument_that_does_not_fit(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        product(**{"x": X, "y": Y} | arguments)
    assert caught.value.__cause__ is not None  # what failed is still told


def test_a_failure_of_fitting_arguments_stays_what_it_was():
    def broken(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        product(X, Y, function=broken)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        product(X)  # pyright: ignore[reportCallIssue]  # on purpose


def test_an_error_that_names_an_argument_is_left_alone():
    @entry
    def checked(x: int, y: int):
        raise ValueError("`x` must be small.")

    with pytest.raises(ValueError, match="`x` must be small"):
        checked(1, "text")  # pyright: ignore[reportArgumentType]  # on purpose


def test_a_call_that_succeeds_is_never_refused():
    @entry
    def lenient(x: int, y: Float[Array, "n d"]):
        return x, y

    assert lenient("text", None) == ("text", None)  # pyright: ignore[reportArgumentType]  # on purpose


def test_fields_are_named_when_an_object_is_made():
    @dataclass(frozen=True)
    class Scale:
        size: float

        @entry
        def __post_init__(self):
            object.__setattr__(self, "size", self.size + 1)

    class Module(eqx.Module):
        size: float
        weights: Float[Array, " n"]

        @entry
        def __check_init__(self):
            self.weights.sum() + self.size

        @entry
        def times(self, factor: float):
            return self.weights * factor

    assert Scale(1.0).size == 2
    builders: list[Callable[..., object]] = [Scale, lambda size: Module(size, jnp.ones(2))]
    for build in builders:
        with pytest.raises(TypeError, match="`size` must be a number, got size='one'"):
            build("one")
    module = Module(1.0, jnp.ones(2))
    np.testing.assert_array_equal(eqx.filter_jit(module.times)(2.0), [2, 2])
    with pytest.raises(TypeError, match="`factor` must be a number"):
        module.times("two")  # pyright: ignore[reportArgumentType]  # on purpose


def test_entries_can_be_compiled_differentiated_and_pickled():
    x, y = jnp.ones((3, 2)), jnp.ones(3)
    value = jax.jit(lambda x: product(x, y)[0])(x)
    np.testing.assert_allclose(value, x.T @ jnp.sin(y), rtol=1e-6)
    assert jax.grad(lambda x: product(x, y)[0].sum())(x).shape == (3, 2)
    relu_gram = ul.kernels.relu_gram
    assert pickle.loads(pickle.dumps(relu_gram)) is relu_gram


def test_axes_are_matched_as_annotated():
    assert match_axes("n d", (3, 2), {}, "x") == {"n": (3, "x"), "d": (2, "x")}
    assert match_axes("n *c", (3,), {"n": (3, "x")}, "y") == {"n": (3, "y"), "*c": ((), "y")}
    assert match_axes("n *c", (4,), {"n": (3, "x")}, "y") is None
    assert match_axes("n n", (3, 2), {}, "H") is None
    assert match_axes("2 _", (2, 7), {}, "x") == {}
    assert match_axes("...", (), {}, "x") == {}


def test_a_warning_points_to_the_line_of_the_user():
    with pytest.warns(UnlazyWarning) as caught:
        ul.dynamics.KernelDynamics.from_gram(np.eye(2), np.ones(2), learning_rate=9.0)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="here") as caught:
        warnings.warn("here", stacklevel=user_level())
    assert caught[0].filename == __file__


def test_errors_about_other_things_than_arguments_pass_unchanged():
    @entry
    def reads(x: Float[Array, " n"]):
        if len(x) == 1:
            raise DataFileError("file.npz is damaged.")
        warnings.warn("slow", UnlazyWarning, stacklevel=user_level())

    with pytest.raises(DataFileError, match=r"file\.npz"):
        reads([1.0])  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(UnlazyWarning, match="slow"):  # warnings are errors here
        reads([1.0, 2.0])  # pyright: ignore[reportArgumentType]  # on purpose


def test_the_function_of_the_user_that_failed_is_named():
    with (
        pytest.raises(ValueError, match=r"`f` must accept `x`, got KeyError: 'a'"),
        calling("f", "`x`"),
    ):
        {}["a"]
    with pytest.raises(UnknownNameError, match="`name` must be"), calling("f", "`x`"):
        check_name("a", ["b"], "name")
    with pytest.raises(ValueError, match="`f` must accept these `params`"):
        ul.kernels.empirical_ntk(lambda w, x: x @ w, jnp.ones(3), jnp.ones((2, 4)))


def test_errors_of_earlier_reports_are_clear():
    flow = ul.dynamics.KernelDynamics.from_gram(np.eye(2), np.ones(2))
    with pytest.raises(TypeError, match=r"`step` must be a number, got step=\[1, 2\]"):
        flow.movement([1, 2])  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(TypeError, match="`activation` must be"):
        ul.kernels.ntk(np.ones((2, 3)), activation=["relu"])  # pyright: ignore[reportArgumentType]  # on purpose
    K = ul.kernels.empirical_ntk(lambda w, x: x @ w, jnp.ones(3), [[1.0, 2, 3]])  # pyright: ignore[reportArgumentType]  # a list
    np.testing.assert_allclose(K.ravel(), [14.0])


@pytest.mark.parametrize("kind", [InterruptedError, MemoryError, RuntimeError])
def test_interrupts_and_failures_of_the_machine_pass_unchanged(kind):
    @entry
    def interrupted(x: int) -> int:
        raise kind("of no argument")

    with pytest.raises(kind, match="of no argument"):
        interrupted(cast(Any, "text"))


class Raising:
    """A callable object of the user's, whose error comes from a method."""

    def __call__(self, *arguments):
        return self.failing(arguments)

    def failing(self, arguments):
        raise KeyError("mine", len(arguments))


class OwnError(ValueError):
    """A kind of error that the user catches."""


def test_errors_out_of_the_users_functions_keep_their_kind_whatever_the_callable_is():
    data = (jnp.ones((3, 2)), jnp.ones(3))
    options: Any = {"optimizer": optax.sgd(0.1), "steps": 1}
    with pytest.raises(KeyError, match="mine"):
        ul.train.fit(Raising(), jnp.ones(2), data, **options)
    loss = ul.train.SquaredError(lambda w, x: x @ w)
    with pytest.raises(KeyError, match="nope"):  # and nobody blames the loss
        ul.train.fit(loss, jnp.ones(2), data, record={"a": lambda w: {"w": w}["nope"]}, **options)

    def out_of_memory(params, x):
        raise MemoryError("of mine")

    def strange(params, x):
        raise OwnError("of mine")

    for model, kind in ((out_of_memory, MemoryError), (strange, OwnError)):
        with pytest.raises(kind, match="of mine"):
            ul.kernels.empirical_ntk(model, jnp.ones(2), data[0])


def test_what_an_inner_entry_says_of_its_own_argument_is_taken_back():
    @entry
    def inner(hidden: int) -> int:
        return hidden + "text"  # pyright: ignore[reportOperatorIssue]

    @entry
    def outer(x: int) -> int:
        return inner(cast(Any, [x]))

    with pytest.raises(TypeError, match="can only concatenate list"):
        outer(1)


class Module:
    """What stands for a module of PyTorch, which is known by its name and not imported."""


Module.__module__ = "torch.nn.modules.module"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda m: ul.kernels.empirical_ntk(m, {"w": np.ones(2)}, np.eye(2)), "f"),
        (lambda m: ul.kernels.empirical_operator(m, {"w": np.ones(2)}, np.eye(2)), "f"),
        (lambda m: ul.taylor.terms(m, np.ones(2), np.ones(2), np.eye(2), 2), "f"),
        (lambda m: ul.curvature.certify(m, np.ones(2), key=jax.random.key(0)), "loss"),
        (
            lambda m: ul.train.fit(m, np.ones(2), np.eye(2), optimizer=optax.sgd(0.1), steps=1),
            "loss",
        ),
    ],
)
def test_a_pytorch_module_is_told_where_it_is_taken(call, name):
    class Net(Module):
        def __call__(self, _):
            raise TypeError("forward() takes 2 positional arguments but 3 were given")

    with pytest.raises(TypeError, match=f"`{name}` must be of JAX, got a torch.nn.Module, Net.*by"):
        call(Net())


def test_instruments_that_take_pytorch_modules_keep_their_own_errors():
    with pytest.raises(AttributeError, match="state_dict"):
        ul.laziness.snapshot(Module())


@pytest.mark.parametrize("data", [np.eye(3), np.eye(2), (np.eye(2),) * 3])
@pytest.mark.parametrize("loss", [ul.losses.SquaredError, ul.losses.MeanLoss])
def test_data_without_labels_are_named(loss, data):
    model = loss(lambda w, x: x @ w)
    with pytest.raises(ValueError, match=r"`data` must be a pair \(x, y\).*got"):
        ul.train.fit(model, np.ones(len(data)), data, optimizer=optax.sgd(0.1), steps=1)


def test_a_matrix_in_place_of_a_kernel_is_named():
    with pytest.raises(TypeError, match=r"`kernel` must be a function.*of shape \(2, 2\)"):
        ul.kernels.KernelRegression(cast(Any, np.eye(2)))


@pytest.mark.parametrize("phi", [np.tanh, lambda z: z if z > 0 else 0 * z, lambda z: np.exp(z)])
def test_an_activation_written_in_numpy_is_named(phi):
    for kernel in (ul.kernels.ntk, ul.kernels.nngp):
        with pytest.raises(TypeError, match=r"`activation` must be written in jax\.numpy"):
            kernel(np.eye(2), activation=phi)
