# SPDX-License-Identifier: Apache-2.0
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core.errors import UnknownNameError
from unlazy.kernels import empirical_ntk, empirical_ntk_diagonal, empirical_ntk_traced, relu_gram
from unlazy.kernels.empirical import blockwise as blockwise_module
from unlazy.kernels.empirical.features import Blocks, Cost
from unlazy.kernels.empirical.model import Model, Task
from unlazy.nets import TwoLayer, partition

NAMES = (
    *("two_layer", "mlp", "scaled_mlp", "bias_before_product", "bias_over_rows", "square_bias"),
    *("conv_nchw", "conv_nhwc", "grouped_conv", "shared_residual", "tied", "attention"),
    *("recurrent", "nested_jits", "linear_in_the_parameter", "shared_after_one_transpose"),
    *("unrolled", "shared_conv"),
)
IMPLEMENTATIONS = ("layerwise", "jacobian", "ntk-vector")
ROUNDING = 1e-12  # of sums of a few hundred float64 products


def assert_close(K, reference, rounding=ROUNDING):
    assert K.shape == reference.shape
    assert np.max(np.abs(np.asarray(K) - reference)) <= rounding * np.max(np.abs(reference))


def problem(networks, name, n1=4, n2=None):
    """A network in float64 with one or two sets of samples."""
    case = networks.CASES[name]()
    params = networks.double(case.params)
    x1 = networks.double(networks.samples(case, n1))
    x2 = None if n2 is None else networks.double(networks.samples(case, n2, k=1))
    return case.f, params, x1, x2


def test_every_network_is_tried(networks):
    assert set(NAMES) == set(networks.CASES)


@pytest.mark.parametrize("name", NAMES)
def test_layerwise_kernel_agrees_with_the_dense_jacobian(name, networks, x64):
    f, params, x1, x2 = problem(networks, name, 3, 3)
    K = empirical_ntk(f, params, x1, x2, implementation="layerwise")
    assert_close(K, networks.dense_kernel(f, params, x1, x2))


@pytest.mark.parametrize("name", ["mlp", "bias_over_rows", "conv_nhwc"])
def test_every_implementation_agrees_on_every_form_of_the_kernel(name, networks, x64):
    f, params, x, _ = problem(networks, name, 3)
    reference = networks.dense_kernel(f, params, x)
    for implementation in IMPLEMENTATIONS:
        options: dict[str, Any] = {"implementation": implementation}
        assert_close(empirical_ntk(f, params, x, **options), reference)
        traced = empirical_ntk_traced(f, params, x, **options)
        assert_close(traced, np.einsum("ijaa->ij", reference))
        diagonal = empirical_ntk_diagonal(f, params, x, **options)
        assert_close(diagonal, np.einsum("iiab->iab", reference))


@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_float32_parameters_give_a_float32_kernel_to_rounding(name, networks):
    case = networks.CASES[name]()
    x = networks.samples(case, 5)
    K = empirical_ntk(case.f, case.params, x)
    assert K.dtype == jnp.float32
    with jax.enable_x64(True):
        params, wide = networks.double(case.params), networks.double(x)
        reference = networks.dense_kernel(case.f, params, wide)
    assert_close(K, reference, rounding=1e-5)


def test_float64_parameters_give_a_float64_kernel_with_x64_off(networks):
    with jax.enable_x64(True):
        f, params, x, _ = problem(networks, "mlp", 5)
        reference = networks.dense_kernel(f, params, x)
    narrow = np.asarray(x, np.float32)
    K = empirical_ntk(f, params, np.asarray(x))
    assert K.dtype == jnp.float64
    assert_close(K, reference)
    assert empirical_ntk_traced(f, params, narrow).dtype == jnp.float64


def test_half_precision_parameters_are_contracted_in_float32():
    w, x = jnp.full((300,), 0.1, jnp.bfloat16), jnp.ones((1, 300), jnp.bfloat16)
    K = empirical_ntk_traced(lambda w, x: x @ w, w, x)
    assert K.dtype == jnp.float32
    assert float(K[0, 0]) == 300  # a bfloat16 sum would stop at 256


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "implementation", "memory"),
    [
        *(("mlp", "layerwise", 1), ("mlp", "layerwise", 3e4), ("mlp", "jacobian", 3e4)),
        *(("mlp", "auto", 1), ("conv_nhwc", "layerwise", 1e5)),
    ],
)
def test_the_memory_budget_does_not_change_the_kernel(name, memory, implementation, networks, x64):
    f, params, x, _ = problem(networks, name, 12)
    x1, x2 = x[:7], x[7:]
    whole = networks.dense_kernel(f, params, x)
    own, cross = whole[:7, :7], whole[:7, 7:]
    options: dict[str, Any] = {"implementation": implementation, "memory": memory}
    assert_close(empirical_ntk(f, params, x1, **options), own)
    assert_close(empirical_ntk_traced(f, params, x1, x2, **options), np.einsum("ijaa->ij", cross))
    diagonal = empirical_ntk_diagonal(f, params, x1, **options)
    assert_close(diagonal, np.einsum("iiab->iab", own))


@pytest.mark.parametrize(
    ("implementation", "n", "memory"),
    [
        *(("layerwise", 1, 1e9), ("layerwise", 300, 1e9), ("layerwise", 37, 3e4)),
        *(("jacobian", 37, 3e4), ("ntk-vector", 37, 1e9)),
    ],
)
@pytest.mark.usefixtures("optimized")
def test_kernel_is_symmetric_to_the_last_bit_and_psd(implementation, n, memory, networks):
    case = networks.CASES["mlp"]()
    x = networks.samples(case, n)
    options: dict[str, Any] = {"implementation": implementation, "memory": memory}
    K = np.asarray(empirical_ntk(case.f, case.params, x, **options))
    assert np.array_equal(K, K.transpose(1, 0, 3, 2))
    traced = np.asarray(empirical_ntk_traced(case.f, case.params, x, **options))
    assert np.array_equal(traced, traced.T)
    values = np.linalg.eigvalsh(K.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n).astype(np.float64))
    assert values[0] > -1e-5 * values[-1]


@pytest.mark.usefixtures("optimized")
def test_the_kernel_is_the_same_in_one_tile_as_on_an_accelerator(networks, x64, monkeypatch):
    f, params, x, _ = problem(networks, "mlp", 300)
    in_tiles = np.asarray(empirical_ntk(f, params, x))
    monkeypatch.setattr(blockwise_module, "_TILES", 1)
    K = np.asarray(empirical_ntk(f, params, x))
    assert_close(K, in_tiles)
    assert np.array_equal(K, K.transpose(1, 0, 3, 2))


def test_permuted_inputs_permute_the_kernel(networks, x64):
    f, params, x, _ = problem(networks, "conv_nchw", 6)
    order = np.random.default_rng(0).permutation(6)
    K = np.asarray(empirical_ntk(f, params, x))
    assert_close(empirical_ntk(f, params, x[order]), K[order][:, order])


@pytest.mark.parametrize("activation", ["relu", "tanh", "erf", "quadratic"])
def test_two_layer_kernel_is_the_hadamard_product_of_two_gram_matrices(activation, x64):
    # AR-43: H = K o (A A^T) / m with A_ir = a_r sigma'(w_r x_i), by NumPy.
    net = TwoLayer(inputs=10, width=300, activation=activation)
    params, x = net.init(key=jr.key(0)), jr.normal(jr.key(1), (30, 10))
    slope = np.asarray(net.activation.derivative(1)(x @ params.W.T))
    A = slope * np.asarray(params.a)[None, :]
    reference = np.asarray(x @ x.T) * (A @ A.T) / 300
    assert_close(empirical_ntk_traced(net, params, x, trained="hidden"), reference, 1e-14)
    last = np.asarray(net.activation(x @ params.W.T))
    assert_close(empirical_ntk_traced(net, params, x, trained="last"), last @ last.T / 300, 1e-14)


@pytest.mark.slow
def test_wide_two_layer_kernel_tends_to_its_limit_like_one_over_root_width():
    # AR-44. The squared error has mean V/m exactly: over 8 draws of 400 entries its root varies
    # by about 10 %, the slope over a factor 64 in width by 0.03; failure below 1e-3.
    x = jr.normal(jr.key(0), (20, 10))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    limit, widths = np.asarray(relu_gram(x)), (256, 2048, 16384)
    errors = []
    for width in widths:
        net = TwoLayer(inputs=10, width=width)
        keys = jr.split(jr.fold_in(jr.key(1), width), 8)
        draws = [empirical_ntk_traced(net, net.init(key=key), x, trained="hidden") for key in keys]
        errors.append(np.sqrt(np.mean([np.sum((np.asarray(K) - limit) ** 2) for K in draws])))
    slope, _ = np.polyfit(np.log(widths), np.log(errors), 1)
    assert slope == pytest.approx(-0.5, abs=0.1)


def test_a_subset_of_parameters_can_be_chosen_in_every_way(networks, x64):
    f, params, x, _ = problem(networks, "mlp", 4)
    reference = networks.dense_kernel(f, params, x, keep=lambda path: "weight" in path)
    chosen = jax.tree_util.tree_map_with_path(
        lambda path, _: jax.tree_util.keystr(path).endswith("weight"), params
    )
    assert_close(empirical_ntk(f, params, x, trained=chosen), reference)
    by_path = empirical_ntk(f, params, x, trained=lambda path: path.endswith("/weight"))
    assert_close(by_path, reference)
    rest = empirical_ntk(f, params, x, trained=lambda path: path.endswith("/bias"))
    assert_close(rest + by_path, networks.dense_kernel(f, params, x))


def test_hidden_and_last_add_up_to_all(x64):
    net = TwoLayer(inputs=3, width=8)
    params, x = net.init(key=jr.key(0)), jr.normal(jr.key(1), (5, 3))
    parts = [empirical_ntk(net, params, x, trained=name) for name in ("hidden", "last")]
    assert_close(parts[0] + parts[1], np.asarray(empirical_ntk(net, params, x, trained="all")))


def test_unused_parameters_give_a_kernel_of_zeros():
    K = empirical_ntk(lambda _, x: 2 * x, {"w": jnp.ones(3)}, jnp.ones((2, 4)))
    assert K.shape == (2, 2, 4, 4)
    assert not np.any(K)


def test_kernel_works_under_jit_and_can_be_differentiated(networks, x64):
    f, params, x, _ = problem(networks, "scaled_mlp", 3)
    K = empirical_ntk(f, params, x)
    assert_close(jax.jit(lambda p, x: empirical_ntk(f, p, x))(params, x), np.asarray(K))
    small = jax.jit(lambda p, x: empirical_ntk(f, p, x, memory=2e3))(params, x)
    assert_close(small, np.asarray(K))

    def total(scale):
        return jnp.sum(empirical_ntk_traced(f, params, scale * x))

    step = 1e-5
    slope = (total(1 + step) - total(1 - step)) / (2 * step)
    assert float(jax.grad(total)(1.0)) == pytest.approx(float(slope), rel=1e-7)


def test_one_program_is_compiled_for_one_shape(networks, compilations):
    case = networks.CASES["mlp"]()
    x, other = networks.samples(case, 9), 2 * networks.samples(case, 9)
    empirical_ntk(case.f, case.params, x)
    assert compilations
    compilations.clear()
    empirical_ntk(case.f, jax.tree.map(lambda leaf: leaf, case.params), other)
    assert compilations == []


@pytest.mark.parametrize("implementation", ["layerwise", "jacobian", "ntk-vector"])
def test_a_changed_closure_changes_the_kernel(implementation):
    alpha = 1.0

    def f(w, x):
        return alpha * jnp.tanh(x @ w)

    w, x = jr.normal(jr.key(0), (3, 2)), jr.normal(jr.key(1), (5, 3))

    def kernels():
        return (
            empirical_ntk(f, w, x, implementation=implementation),
            empirical_ntk(f, w, x[:2], x, implementation=implementation),
            empirical_ntk_traced(f, w, x, implementation=implementation),
            empirical_ntk_diagonal(f, w, x, implementation=implementation),
        )

    before = kernels()
    alpha = 10.0
    for old, new in zip(before, kernels(), strict=True):
        np.testing.assert_allclose(new, 100 * old, rtol=1e-5, atol=1e-6)
    slopes = [jax.grad(lambda w: jnp.sum(empirical_ntk_traced(f, w, x)))(w)]
    alpha = 1.0
    slopes += [jax.grad(lambda w: jnp.sum(empirical_ntk_traced(f, w, x)))(w)]
    np.testing.assert_allclose(slopes[0], 100 * slopes[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("init", ["antisymmetric", "symmetric", "sphere"])
def test_a_start_whose_outputs_cancel_to_rounding_is_no_batch_normalisation(x64, getkey, init):
    net = TwoLayer(inputs=7, width=40, activation="tanh", init=init)
    params, x = net.init(key=getkey()), jr.normal(getkey(), (12, 7))
    H = empirical_ntk_traced(net, params, x)
    reference = empirical_ntk_traced(net, params, x, implementation="jacobian")
    np.testing.assert_allclose(H, reference, rtol=1e-12)


def test_batch_normalisation_in_training_mode_is_refused(no_shape_checker):
    def f(w, x):
        return ((x - x.mean(axis=0, keepdims=True)) / x.std(axis=0, keepdims=True)) @ w

    x = jr.normal(jr.key(0), (5, 3))
    with pytest.raises(ValueError, match="`f` must treat each row of `x` by itself"):
        empirical_ntk(f, jnp.ones(3), x)
    with pytest.raises(ValueError, match="evaluation mode"):
        empirical_ntk_traced(f, jnp.ones(3), x[:1], x[1:])
    with pytest.raises(ValueError, match="evaluation mode"):
        empirical_ntk_diagonal(f, jnp.ones(3), x)


def test_wrong_arguments_are_named(no_shape_checker):
    w, x = jnp.ones(3), jnp.ones((2, 3))

    def f(w, x):
        return x @ w

    for change, message in (
        ({"f": lambda w, x: jnp.sum(x @ w)}, r"`f` must return an array of shape \(n,\) or"),
        ({"f": lambda w, _: jnp.ones((2, 2, 2)) * w[0]}, r"got \(2, 2, 2\) for n=2"),
        ({"f": lambda w, x: x @ w > 0}, "`f` must return real floating-point outputs"),
        ({"params": jnp.full(3, jnp.inf)}, "`f` must give finite outputs"),
        ({"params": jnp.ones(3, jnp.complex64)}, "`params` must be real"),
        ({"params": jnp.arange(3)}, "`trained` must choose at least one"),
        ({"x1": jnp.ones(())}, "`x1` must have samples along its first axis"),
        ({"x1": jnp.full((2, 3), jnp.nan)}, "`x1` must be finite, got nan or inf in rows 0 and 1"),
        ({"x2": jnp.ones((2, 4))}, "`x1` and `x2` must hold samples of one shape"),
        ({"trained": "hidden"}, "`trained` must be None or a filter for these `params`"),
        ({"trained": "hiden"}, "Did you mean 'hidden'"),
        ({"trained": lambda _: False}, "`trained` must choose at least one"),
        ({"trained": {"w": True}}, "`trained` must be booleans in the structure"),
        ({"trained": 3}, "`trained` must be None, a name"),
        ({"implementation": "jacobean"}, "Did you mean 'jacobian'"),
        ({"memory": 0}, "`memory` must be a positive number"),
    ):
        arguments: dict[str, Any] = {"f": f, "params": w, "x1": x} | change
        with pytest.raises((ValueError, UnknownNameError), match=message):
            empirical_ntk(**arguments)


@pytest.mark.parametrize("as_array", [jnp.asarray, np.asarray], ids=["jax", "numpy"])
def test_samples_that_are_not_finite_are_named_however_the_kernel_is_computed(as_array):
    w, good, one = jnp.ones(3), np.ones((5, 3), np.float32), np.ones((1, 3), np.float32)
    bad = good.copy()
    bad[3, 1] = np.inf
    f, seen = lambda w, x: jnp.tanh(x @ w), []
    options = {"memory": 600, "progress": lambda *done: seen.append(done)}
    for name, arguments in (
        ("x1", ({"x1": bad}, {"x1": bad[3:4]}, {"x1": bad, "implementation": "ntk-vector"})),
        ("x2", ({"x1": good, "x2": bad}, {"x1": one, "x2": bad})),
        ("x1", ({"x1": bad} | options, {"x1": bad, "x2": good} | options)),
    ):
        for given in arguments:
            arrays: dict[str, Any] = {
                k: as_array(v) if k in ("x1", "x2") else v for k, v in given.items()
            }
            with pytest.raises(
                ValueError, match=rf"`{name}` must be finite, got nan or inf in row"
            ):
                empirical_ntk_traced(f, w, **arrays)
    assert not seen  # before work that takes long


def test_an_equinox_model_needs_one_line():
    model = eqx.nn.MLP(2, "scalar", 16, 1, key=jr.key(0))
    K = empirical_ntk(lambda model, x: jax.vmap(model)(x), model, jr.normal(jr.key(1), (3, 2)))
    assert K.shape == (3, 3, 1, 1)


@pytest.mark.parametrize(("cross", "expected"), [(False, 24 + 12), (True, 24 + 2 * 24)])
def test_features_are_computed_again_once_a_panel(cross, expected, networks, x64, monkeypatch):
    rows, compute = [], blockwise_module.features_of

    def count(task, x, **options):
        rows.append(len(x))
        return compute(task, x, **options)

    monkeypatch.setattr(blockwise_module, "features_of", count)
    f, params, x, _ = problem(networks, "mlp", 24)
    arrays, frozen = partition(params, None)
    task = Task(Model(f, frozen), arrays, layerwise=True, traced=True, dtype=np.dtype(np.float64))
    layout = Blocks(rows=4, held=3)  # two panels of three blocks
    K = blockwise_module.blockwise(task, x, x if cross else None, layout)
    assert sum(rows) == expected
    assert_close(K, np.einsum("ijaa->ij", networks.dense_kernel(f, params, x)))


def test_of_two_sets_the_smaller_is_held_and_the_other_computed_once(networks, x64, monkeypatch):
    rows, compute = [], blockwise_module.features_of

    def count(task, x, **options):
        rows.append(len(x))
        return compute(task, x, **options)

    monkeypatch.setattr(blockwise_module, "features_of", count)
    f, params, x, _ = problem(networks, "mlp", 24)
    arrays, frozen = partition(params, None)
    task = Task(Model(f, frozen), arrays, layerwise=True, traced=True, dtype=np.dtype(np.float64))
    whole = np.einsum("ijaa->ij", networks.dense_kernel(f, params, x))
    for first, second in ((x[:16], x[16:]), (x[16:], x[:16])):
        rows.clear()
        K = blockwise_module.blockwise(task, first, second, Blocks(4, 2))
        assert sum(rows) == 24
        assert_close(K, whole[:16, 16:] if len(first) == 16 else whole[16:, :16])


def test_blocks_fit_the_memory_and_are_whole_where_they_can():
    cost = Cost(row=400, kept=100, pair=8)
    for memory in (1e4, 1e5, 1e6):
        rows, held = cost.blocks(10**6, memory)
        computing = rows * (2 * cost.row + cost.pair * rows)
        assert computing <= memory / 2
        assert computing + rows * held * cost.kept <= memory
        assert held >= 8
    assert cost.blocks(20, 1e5) == Blocks(20, 1)
    assert cost.blocks(5, 1) == Blocks(1, 1)


def test_rows_that_meet_themselves_alone_need_their_features_once():
    cost = Cost(row=400, kept=100, pair=8)
    for memory in (1e4, 1e6):
        for sides in (1, 2):
            b = cost.block(memory, sides)
            needs = [sides * cost.row * rows + cost.pair * rows**2 for rows in (b, b + 1)]
            assert needs[0] <= memory < needs[1]
    assert cost.blocks(100, 1.3e5, 1) == Blocks(100, 1)
    assert cost.blocks(100, 1.3e5, 2).rows < 100


def test_blocks_are_as_large_as_the_features_of_all_rows_leave_room_for():
    cost = Cost(row=400, kept=100, pair=8)
    for memory in (2e4, 2.5e4, 3e4):
        rows, held = cost.blocks(100, memory, 1)
        assert rows * held >= 100
        assert 100 * cost.kept + rows * (cost.row - cost.kept) <= memory
        assert 100 * cost.kept + cost.pair * rows**2 <= memory
        assert rows > cost.block(memory / 2)
    assert cost.blocks(100, 9e3, 1) == cost.blocks(100, 9e3, 2)  # there is no room for all


def test_the_sum_of_outputs_is_the_sum_over_all_pairs_of_outputs(networks, x64):
    f, params, x, _ = problem(networks, "conv_nchw", 5)
    full = networks.dense_kernel(f, params, x)
    K = empirical_ntk(f, params, x, sum_of_outputs=True)
    assert K.shape == (5, 5, 1, 1)
    assert_close(K[:, :, 0, 0], full.sum(axis=(2, 3)))
    assert_close(empirical_ntk_traced(f, params, x, sum_of_outputs=True), full.sum(axis=(2, 3)))
    of_each = empirical_ntk_diagonal(f, params, x, sum_of_outputs=True)
    assert_close(of_each[:, 0, 0], np.einsum("iiab->i", full))


@pytest.mark.parametrize(
    ("name", "implementation"), [("mlp", "auto"), ("conv_nchw", "auto"), ("conv_nhwc", "jacobian")]
)
def test_sign_kernels_take_the_sign_of_every_entry_of_a_gradient(
    name, implementation, networks, x64
):
    f, params, x, _ = problem(networks, name, 7)
    G = networks.dense_jacobian(f, params, x)
    options: dict[str, Any] = {"implementation": implementation}
    both = np.einsum("iap,jbp->ijab", np.sign(G), np.sign(G))
    assert_close(empirical_ntk(f, params, x, sign="both", **options), both)
    second = np.einsum("iap,jbp->ijab", G, np.sign(G))
    assert_close(empirical_ntk(f, params, x, sign="second", **options), second)
    cross = empirical_ntk_traced(f, params, x[:5], x[5:], sign="second", memory=1, **options)
    assert_close(cross, np.einsum("ijaa->ij", second)[:5, 5:])
    cross = empirical_ntk_traced(f, params, x[:2], x[2:], sign="second", **options)
    assert_close(cross, np.einsum("ijaa->ij", second)[:2, 2:])


@pytest.mark.parametrize("name", [pytest.param("conv_nhwc", marks=pytest.mark.slow), "attention"])
def test_sign_kernels_of_unlike_samples_are_those_of_the_jacobians(name, networks, x64):
    f, params, x1, x2 = problem(networks, name, 5, 3)
    G1, second = networks.dense_jacobian(f, params, x1), networks.dense_jacobian(f, params, x2)
    G2 = np.sign(second)
    signed: tuple[tuple[Any, np.ndarray], ...] = (("both", np.sign(G1)), ("second", G1))
    for sign, first in signed:
        reference = np.einsum("iap,jbp->ijab", first, G2)
        assert_close(empirical_ntk(f, params, x1, x2, sign=sign), reference)
        traced = empirical_ntk_traced(f, params, x1, x2, sign=sign, memory=1e4)
        assert_close(traced, np.einsum("ijaa->ij", reference))
    summed = np.einsum("ip,jp->ij", G1.sum(axis=1), np.sign(second.sum(axis=1)))
    one = empirical_ntk(f, params, x1, x2, sign="second", sum_of_outputs=True)
    assert_close(one[:, :, 0, 0], summed)


def test_progress_counts_every_entry_once_and_ends_with_all(networks, x64):
    f, params, x, _ = problem(networks, "mlp", 24)
    seen: list[tuple[int, int]] = []
    for other in (None, x[:9]):
        seen.clear()
        empirical_ntk(f, params, x, other, memory=1e5, progress=lambda *at: seen.append(at))
        done = [count for count, _ in seen]
        assert len(done) > 2
        assert done == sorted(set(done))
        assert seen[-1] == (24 * (24 if other is None else 9),) * 2
