# SPDX-License-Identifier: Apache-2.0
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import dynamics, labels
from unlazy.core.errors import UnlazyWarning
from unlazy.core.jaxprs import equations, shaped
from unlazy.kernels import KernelOperator, empirical_ntk, empirical_operator
from unlazy.kernels.empirical import products as products_module
from unlazy.kernels.empirical.model import Model
from unlazy.kernels.empirical.products import ProductCost, product_cost

FORMS: dict[str, dict[str, Any]] = {
    "full": {},
    "traced": {"traced": True},
    "sum": {"sum_of_outputs": True},
}


def matrix(networks, f, params, x, form):
    """The dense kernel by whole Jacobians, as the matrix that the operator stands for."""
    K = networks.dense_kernel(f, params, x)
    n, _, c, _ = K.shape
    if form == "traced":
        return np.einsum("ijaa->ij", K)
    return K.sum(axis=(2, 3)) if form == "sum" else K.transpose(0, 2, 1, 3).reshape(n * c, n * c)


def network(networks, name, n):
    case = networks.CASES[name]()
    return case.f, networks.double(case.params), networks.double(networks.samples(case, n))


def deep(outputs, seed=0):
    """A network that is wide enough for a well-conditioned kernel of some dozens of samples."""
    model = eqx.nn.MLP(7, outputs, 64, 2, jnp.tanh, key=jr.key(seed))
    return lambda model, x: jax.vmap(model)(x), model


@pytest.mark.parametrize(
    ("name", "form", "memory"),
    [
        *(("mlp", "full", 2e4), ("mlp", "traced", 4e3), ("conv_nchw", "full", 4e4)),
        *(("attention", "traced", None), ("recurrent", "sum", None)),
    ],
)
def test_products_are_those_of_the_dense_kernel(name, form, memory, networks, x64):
    f, params, x = network(networks, name, 11)  # no block size divides it
    K = matrix(networks, f, params, x, form)
    H = empirical_operator(f, params, x, memory=memory, **FORMS[form])
    assert isinstance(H, KernelOperator)
    assert H.shape == K.shape
    sizes = np.array([1.0, 1e-60, 1e60])
    V = np.random.default_rng(0).standard_normal((len(K), 3)) * sizes[None, :]
    np.testing.assert_allclose(H.matmat(V) / sizes, K @ V / sizes, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_entries_are_those_of_the_dense_kernel(form, networks, x64):
    f, params, x = network(networks, "mlp", 11)
    K = matrix(networks, f, params, x, form)
    H = empirical_operator(f, params, x, **FORMS[form])
    np.testing.assert_allclose(H.diagonal(), np.diagonal(K), rtol=1e-11)
    np.testing.assert_allclose(H.matvec(K[0]), K @ K[0], rtol=1e-10)
    rows, columns = [5, 1, 5, -1], slice(2, 9)
    np.testing.assert_allclose(H.block(rows, columns), K[rows][:, columns], rtol=0, atol=1e-10)


def test_some_rows_are_an_operator_of_their_own(networks, x64):
    f, params, x = network(networks, "scaled_mlp", 6)
    K = matrix(networks, f, params, x, "full")
    H, rows = (
        empirical_operator(f, params, x),
        [7, 2, 7, 0, 11],
    )  # outputs of some samples, one twice
    some = H.take(rows)
    sub, V = K[np.ix_(rows, rows)], np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_allclose(some.matmat(V), sub @ V, rtol=1e-10)
    np.testing.assert_allclose(some.dense(), sub, rtol=1e-10)
    again = some.take([3, 1])
    np.testing.assert_allclose(again.dense(), K[np.ix_([0, 2], [0, 2])], rtol=1e-10)
    np.testing.assert_allclose(H.dense(), K, rtol=1e-10)


@pytest.mark.parametrize(
    ("form", "wide"),
    [
        pytest.param("full", True, marks=pytest.mark.slow),
        pytest.param("traced", False, marks=pytest.mark.slow),
        ("sum", False),
    ],
)
def test_solves_energies_spectra_and_dynamics_are_those_of_the_dense_kernel(form, wide, networks):
    f, params = deep(3)
    x, rng = jr.normal(jr.key(1), (25, 7)), np.random.default_rng(0)
    with jax.enable_x64(True):
        exact, samples = networks.double(params), networks.double(x)
        K = matrix(networks, f, exact, samples, form)
    H = empirical_operator(f, exact if wide else params, x, **FORMS[form])
    y = rng.standard_normal((len(K), 2))
    rounding = 1e-8 if wide else 3e-4  # that of the entries, times a condition number of 400
    for ridge in (0.0, 2.0):
        solution = H.solve(y, ridge=ridge)
        assert solution.converged
        assert solution.method == "conjugate-gradients"
        assert (solution.rounding == 0) == wide
        reference = np.linalg.solve(K + ridge * np.eye(len(K)), y)
        error = np.linalg.norm(solution.value - reference) / np.linalg.norm(reference)
        assert error < rounding
    assert labels.complexity(H, y) == pytest.approx(labels.complexity(K, y), rel=rounding)
    top = H.top_eigen(3, key=jr.key(2))
    assert top.converged
    np.testing.assert_allclose(top.values, np.linalg.eigvalsh(K)[:-4:-1], rtol=1e-6)
    steps = [0, 1, 10, 100]
    found = dynamics.KernelDynamics.from_operator(H, y).loss(steps)
    np.testing.assert_allclose(
        found, dynamics.KernelDynamics.from_gram(K, y).loss(steps), rtol=1e-4
    )
    assert H.solve(y, method="cholesky").method == "cholesky"


def test_a_float32_solve_that_rounding_spoils_says_so():
    # Two samples that float32 can hardly tell apart, with labels that are far apart.
    f, params = deep(1)
    x = np.array(jr.normal(jr.key(1), (12, 7)))
    x[1] = x[0] * (1 + 1e-5)
    y = np.ones(12)
    y[1] = -1.0
    with pytest.warns(UnlazyWarning, match="float32"):
        empirical_operator(f, params, x).solve(y)


def test_equal_samples_with_different_labels_have_no_energy_and_are_named():
    f, params = deep(1)
    x = np.array(jr.normal(jr.key(1), (12, 7)))
    x[9] = x[4]
    y = np.arange(12.0)
    H = empirical_operator(f, params, x)
    with pytest.warns(UnlazyWarning, match="rows 4 and 9 are duplicates with different labels"):
        assert labels.energy(H, y) == np.inf
    y[9] = y[4]
    alone = np.delete(np.arange(12), 9)
    expected = labels.energy(empirical_operator(f, params, x[alone]), y[alone])
    assert labels.energy(H, y) == pytest.approx(expected, rel=1e-4)


def test_float32_sums_over_many_blocks_keep_their_digits(monkeypatch):
    n, x = 2000, np.full((2000, 1), 0.1, np.float32)
    exact = n * float(np.float32(0.1)) ** 2
    term = np.float32(4) * np.float32(0.1)
    plain = np.cumsum(np.full(n // 4, term, np.float32), dtype=np.float32)[-1] * np.float32(0.1)
    assert abs(plain / exact - 1) > 2e-6
    monkeypatch.setattr(ProductCost, "layout", lambda *_: (4, 1))  # four rows per block
    H = empirical_operator(lambda w, x: x @ w, jnp.ones(1), x)
    np.testing.assert_allclose(H.matvec(np.ones(n)), exact, rtol=3e-7)


def test_trained_chooses_and_progress_counts_blocks(networks, x64):
    f, params, x = network(networks, "mlp", 11)
    reference = networks.dense_kernel(f, params, x, keep=lambda path: "bias" in path)
    seen: list[tuple[int, int]] = []
    H = empirical_operator(
        *(f, params, x),
        trained=lambda path: path.endswith("bias"),
        sum_of_outputs=True,
        memory=1e4,
        progress=lambda *at: seen.append(at),
    )
    K = reference.sum(axis=(2, 3))
    np.testing.assert_allclose(H.matvec(np.ones(11)), K.sum(axis=1), rtol=1e-10)
    total = seen[0][1]
    assert total > 2
    assert seen == [(k + 1, total) for k in range(total)]


def test_the_memory_of_a_product_does_not_grow_with_weights_that_are_moved_about():
    # A transposed weight is computed from the parameters once, not once per row.
    params = {"W": jnp.ones((300, 300)), "v": jnp.ones(300)}

    def f(p, x):
        return jnp.tanh(x @ p["W"].T) @ p["v"]

    need = product_cost(Model(f, {"W": None, "v": None}), params, jnp.ones((5, 300)))
    assert 300 * 4 <= need.row <= 6 * 300 * 4
    assert need.gradient == 16 * (300 * 300 + 300)
    rows, columns = need.layout(10, 1e7)
    assert columns * need.gradient <= 2.5e6
    assert rows * need.row * (1 + 2 * columns) <= 5e6


def test_no_array_of_a_program_is_as_large_as_the_kernel_or_the_jacobian(networks):
    f, params = deep(1)
    arrays = eqx.filter(params, eqx.is_inexact_array)
    p = sum(leaf.size for leaf in jax.tree.leaves(arrays))
    H = empirical_operator(f, params, np.ones((2000, 7), np.float32) * np.arange(2000)[:, None])
    multiply = H.tiles.multiply  # pyright: ignore[reportAttributeAccessIssue]  # of the operator of a network
    x, V = multiply.x, jnp.ones((2000, 1, 1))
    pull = jax.make_jaxpr(lambda t, x, V: products_module._pull(multiply.model, t, x, V))
    push = jax.make_jaxpr(lambda t, x, G: products_module._push(multiply.model, t, x, G))
    gradient = jax.tree.map(lambda leaf: leaf[None], multiply.trained)
    for made in (pull(multiply.trained, x, V), push(multiply.trained, x, gradient)):
        largest = max(
            *(shaped(v).size for eqn in equations(made.jaxpr) for v in eqn.outvars),
        )
        assert largest <= max(2000 * 64, p)


def test_wrong_arguments_are_named(no_shape_checker):
    def f(w, x):
        return x @ w

    w, x = jnp.ones(3), jnp.ones((4, 3))
    for change, message in (
        ({"f": lambda w, x: jnp.sum(x @ w)}, r"`f` must return an array of shape \(n,\) or"),
        ({"x": jnp.ones(())}, "`x` must have samples along its first axis"),
        ({"trained": lambda _: False}, "`trained` must choose at least one"),
        ({"memory": -1}, "`memory` must be a positive number"),
        ({"f": lambda w, x: (x - x.mean(axis=0, keepdims=True)) @ w}, "evaluation mode"),
    ):
        arguments: dict[str, Any] = {"f": f, "params": w, "x": x + jnp.arange(4.0)[:, None]}
        arguments |= change
        with pytest.raises(ValueError, match=message):
            empirical_operator(**arguments)
    H = empirical_operator(f, w, x)
    with pytest.raises(ValueError, match="`v` must have shape"):
        H.matvec(np.ones(3))


def test_half_precision_products_know_their_rounding():
    w, x = jnp.ones(3, jnp.bfloat16), jnp.eye(3, dtype=jnp.bfloat16)
    H = empirical_operator(lambda w, x: x @ w, w, x)
    assert H.tiles.eps == float(jnp.finfo(jnp.bfloat16).eps)
    np.testing.assert_allclose(H.matvec(np.array([1.0, 2.0, 4.0])), [1.0, 2.0, 4.0])


def test_the_operator_of_the_kernel_function_is_the_same(networks):
    f, params = deep(2)
    x = jr.normal(jr.key(1), (9, 7))
    K = np.asarray(empirical_ntk(f, params, x)).transpose(0, 2, 1, 3).reshape(18, 18)
    np.testing.assert_array_equal(empirical_operator(f, params, x).dense(), K)


def test_products_follow_what_the_network_reads(x64):
    scale = {"alpha": 1.0}
    x, w, v = jnp.eye(3), jnp.full((3, 2), 0.3), np.arange(6.0)

    def f(w, x):
        return scale["alpha"] * jnp.tanh(x @ w)

    H = empirical_operator(f, w, x)  # nothing is compiled yet
    scale["alpha"] = 10.0
    late = H.matvec(v)
    scale["alpha"] = 1.0
    np.testing.assert_allclose(H.matvec(v), late / 100, rtol=1e-12)
    np.testing.assert_allclose(empirical_operator(f, w, x).matvec(v), late / 100, rtol=1e-12)
