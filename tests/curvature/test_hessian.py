# SPDX-License-Identifier: Apache-2.0
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from unlazy.core.errors import UnlazyWarning
from unlazy.curvature import extreme_eigenvalues, hvp
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.train import MeanLoss


def network(getkey, width=30, inputs=4, n=25):
    net = TwoLayer(inputs, width, "tanh")
    params = net.init(key=getkey())
    x = jr.normal(getkey(), (n, inputs))
    y = jnp.sign(jr.normal(getkey(), (n,)))
    return MeanLoss(net, "pseudo-huber"), params, (x, y)


def test_the_product_is_that_of_the_dense_hessian_for_a_nested_pytree(x64, getkey):
    params = {"a": jr.normal(getkey(), (3,)), "b": [jr.normal(getkey(), (2, 2)), jnp.array(0.3)]}

    def loss(p):
        return jnp.sum(jnp.sin(p["a"])) * jnp.sum(p["b"][0] ** 3) + jnp.exp(p["b"][1]) * p["a"][0]

    v = jax.tree.map(lambda leaf: jr.normal(jr.key(leaf.size), leaf.shape), params)
    flat, unravel = ravel_pytree(params)
    H = jax.jit(jax.hessian(lambda w: loss(unravel(w))))(flat)
    product, structure = hvp(loss, params, v), jax.tree.structure(params)
    assert jax.tree.structure(product) == structure
    expected = H @ ravel_pytree(v)[0]
    np.testing.assert_allclose(ravel_pytree(product)[0], expected, rtol=1e-12)


def test_the_product_is_linear_symmetric_and_the_slope_of_the_gradient(x64, getkey):
    loss, params, data = network(getkey)
    u, v = (jax.tree.map(lambda p: jr.normal(getkey(), p.shape), params) for _ in range(2))
    inner = lambda a, b: sum(jnp.sum(s * t) for s, t in zip(a, b, strict=True))  # noqa: E731
    leaves = jax.tree.leaves
    Hu, Hv = (hvp(loss, params, direction, data=data) for direction in (u, v))
    assert float(inner(leaves(u), leaves(Hv))) == pytest.approx(
        float(inner(leaves(v), leaves(Hu))), rel=1e-12
    )
    h = 1e-5
    ahead, behind = (
        jax.grad(loss)(jax.tree.map(lambda p, s: p + t * s, params, u), data)  # noqa: B023
        for t in (h, -h)
    )
    for slope, (a, b) in zip(
        leaves(Hu), zip(leaves(ahead), leaves(behind), strict=True), strict=True
    ):
        np.testing.assert_allclose(slope, (a - b) / (2 * h), atol=1e-9)


def test_the_product_keeps_the_dtype_works_under_jit_and_closes_over_data(getkey):
    loss, params, data = network(getkey)
    v = jax.tree.map(jnp.ones_like, params)
    plain = hvp(loss, params, v, data=data)
    closed = hvp(lambda p: loss(p, data), params, v)
    jitted = jax.jit(lambda p, u: hvp(loss, p, u, data=data))(params, v)
    assert plain.W.dtype == jnp.float32
    np.testing.assert_allclose(closed.W, plain.W, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(jitted.W, plain.W, rtol=1e-5, atol=1e-7)


def test_frozen_parameters_and_integers_do_not_count(x64, getkey):
    loss, params, data = network(getkey)
    v = jax.tree.map(lambda p: jr.normal(getkey(), p.shape), params)
    block = hvp(loss, params, v, data=data, trained="hidden")
    only_W = hvp(loss, params, TwoLayerParams(W=v.W, a=jnp.zeros_like(v.a)), data=data)
    np.testing.assert_allclose(block.W, only_W.W, rtol=1e-12)
    np.testing.assert_array_equal(block.a, 0)
    assert float(jnp.max(jnp.abs(only_W.a))) > 0
    counted = hvp(
        lambda p: p["w"] ** 2 * p["k"], {"w": jnp.array(2.0), "k": 3}, {"w": jnp.array(1.0), "k": 0}
    )
    assert float(counted["w"]) == 6
    assert int(counted["k"]) == 0


@pytest.mark.parametrize(
    ("v", "message"),
    [
        ({"a": jnp.zeros(2), "b": jnp.zeros(3)}, r"got shape \(3,\) at v\['b'\] where .* \(2,\)"),
        ({"a": jnp.zeros(2)}, r"got no leaf at v\['b'\]"),
        (
            {"a": jnp.zeros(2), "b": jnp.zeros(2), "c": jnp.zeros(1)},
            r"at v\['c'\] where .* has no leaf",
        ),
    ],
)
def test_a_direction_of_another_structure_is_refused_with_the_path(v, message):
    params = {"a": jnp.zeros(2), "b": jnp.zeros(2)}
    with pytest.raises(ValueError, match=message):
        hvp(lambda p: jnp.sum(p["a"]), params, v)


def test_a_loss_that_is_no_scalar_is_refused(getkey, no_shape_checker):
    with pytest.raises(ValueError, match=r"`loss` must return one real number, got shape \(2,\)"):
        hvp(lambda w: w, jnp.zeros(2), jnp.zeros(2))
    with pytest.raises(ValueError, match="`loss` must return one real number"):
        extreme_eigenvalues(lambda w: w, jnp.zeros(2), key=getkey())


def test_lanczos_equals_the_dense_spectrum(getkey):
    """BL-T12: N = 120; 1e-6 at 60 products, an upper bound of the smallest at any number."""
    loss, params, data = network(getkey, width=30, inputs=4)
    dense = extreme_eigenvalues(loss, params, data=data, trained="hidden", key=getkey())
    assert dense.dense
    assert dense.parameters == 120
    found = {
        q: extreme_eigenvalues(
            loss, params, data=data, trained="hidden", steps=q, dense=False, key=jr.key(3)
        )
        for q in (10, 60)
    }
    assert found[60].smallest == pytest.approx(dense.smallest, abs=1e-6)
    assert found[60].largest == pytest.approx(dense.largest, abs=1e-6)
    for q, ends in found.items():
        assert ends.products == q
        assert ends.smallest >= dense.smallest - 1e-12
        assert ends.largest <= dense.largest + 1e-12
    assert found[10].smallest > dense.smallest + 1e-6
    chance = 1.648 * np.sqrt(120) * np.exp(-0.1 * 119)
    assert found[60].failure_probability(0.01) == pytest.approx(chance)
    assert found[60].failure_probability(1e-8) == 1
    assert dense.failure_probability(0.01) == 0


def test_eigenvectors_are_eigenvectors_in_the_structure_of_the_parameters(x64, getkey):
    loss, params, data = network(getkey)
    ends = extreme_eigenvalues(loss, params, data=data, trained="hidden", key=getkey())
    for value, vector in (
        (ends.smallest, ends.smallest_vector),
        (ends.largest, ends.largest_vector),
    ):
        product = hvp(loss, params, vector, data=data, trained="hidden")
        np.testing.assert_allclose(product.W, value * vector.W, atol=1e-12)
        np.testing.assert_array_equal(vector.a, 0)
        assert float(jnp.linalg.norm(vector.W)) == pytest.approx(1)


def test_float32_parameters_get_the_float64_spectrum(getkey):
    """A curvature of 1e-9 beside one of 1: float32 products would drown it in 1e-7 of noise."""
    scales = jnp.array([1.0, 1e-9, 0.3])
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))
    Q = jnp.asarray(Q, jnp.float32)

    def loss(w):
        return jnp.sum(scales * (Q @ w) ** 2) / 2

    exact = np.linalg.eigvalsh(np.asarray(Q, float).T * np.asarray(scales, float) @ np.asarray(Q))
    for dense in (True, False):
        ends = extreme_eigenvalues(loss, jnp.ones(3), dense=dense, key=getkey())
        assert ends.smallest == pytest.approx(exact[0], rel=1e-5)
        assert ends.largest == pytest.approx(exact[-1], rel=1e-12)
    assert jnp.ones(1).dtype == jnp.float32  # the setting is as it was


def test_a_loss_that_casts_to_float32_is_reported(getkey):
    with pytest.warns(UnlazyWarning, match="The loss computes in float32"):
        extreme_eigenvalues(
            lambda w: jnp.sum(w.astype(jnp.float32) ** 2), jnp.ones(3), key=getkey()
        )


def test_a_hessian_that_is_not_finite_is_refused(getkey):
    with pytest.raises(ValueError, match="`loss` must have a finite Hessian"):
        extreme_eigenvalues(lambda w: jnp.sum(jnp.sqrt(w)), jnp.zeros(2), key=getkey())
    with pytest.raises(ValueError, match="`loss` must have a finite Hessian"):
        extreme_eigenvalues(lambda w: jnp.sum(w**0.5), jnp.zeros(2), dense=False, key=getkey())


def test_an_equinox_model_keeps_its_functions_and_float64_its_digits():
    model = eqx.nn.MLP(2, 1, 4, 1, jnp.tanh, key=jax.random.key(0))
    x = jnp.array([[1.0, -2.0], [0.5, 3.0]])

    def loss(model):
        return jnp.sum(jax.vmap(model)(x) ** 2)

    product = hvp(loss, model, model)
    assert product.activation is model.activation
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    _, expected = jax.jvp(jax.grad(lambda a: loss(eqx.combine(a, rest))), (arrays,), (arrays,))
    for ours, theirs in zip(
        jax.tree.leaves(eqx.filter(product, eqx.is_array)), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    w = np.array([1.0 + 1e-12, 2.0])
    np.testing.assert_allclose(
        hvp(lambda w: w[0] ** 3, w, np.array([1.0, 0.0]))[0], 6 * w[0], rtol=1e-15
    )


def test_a_changed_closure_changes_products_and_spectra():
    scale, name = 1.0, "a"

    def loss(params):
        return scale * (jnp.sum(params["a"] ** 2) + jnp.sum(params["b"] ** 4))

    def trained(path):
        return name in path

    params = {"a": jnp.array([1.0, 2.0]), "b": jnp.ones(3)}

    def values():
        ends = [
            extreme_eigenvalues(loss, params, key=jr.key(0), **options).largest
            for options in ({}, {"dense": False, "steps": 5}, {"smoothing": 0.1, "draws": 64})
        ]
        return hvp(loss, params, params, trained=trained), ends

    product, ends = values()
    np.testing.assert_allclose(product["a"], 2 * params["a"])
    scale = 10.0
    again, tenfold = values()
    np.testing.assert_allclose(again["a"], 20 * params["a"])
    np.testing.assert_allclose(tenfold, np.multiply(ends, 10), rtol=1e-9)
    name = "b"
    other, _ = values()
    np.testing.assert_allclose(other["a"], 0.0)
    np.testing.assert_allclose(other["b"], 120.0)


def test_a_second_product_compiles_nothing(compilations):
    def loss(w):
        return jnp.sum(jax.nn.relu(w) ** 3) + jnp.sum(w * jnp.array([1.0, 2.0]))

    w, other = jnp.ones(2), jnp.array([2.0, -3.0])
    hvp(loss, w, w)
    assert compilations
    compilations.clear()
    hvp(loss, other, w)
    assert compilations == []
