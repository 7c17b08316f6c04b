# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import mpmath
import numpy as np
import pytest

import unlazy as ul
from unlazy.core.errors import UnknownNameError, UnlazyWarning
from unlazy.data import sphere
from unlazy.kernels import nngp, ntk, relu_gram

TRAINED = ("all", "hidden", "last")


def slow(*values):
    """Quadrature compiles for seconds."""
    return pytest.param(*values, marks=pytest.mark.slow)


def rows(n=7, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * rng.uniform(0.3, 2.0, (n, 1))


def naive_relu(x, depth, wv, bv, fixed=0):
    """The recursion of the docstring in NumPy, through arccos: (all, hidden, last)."""
    C = wv * x @ x.T / x.shape[1] + bv
    theta, backward = C * (fixed == 0), 0 * C
    for l in range(1, depth + 1):
        s = np.sqrt(np.diag(C))
        c = np.clip(C / np.outer(s, s), -1, 1)
        angle = np.arccos(c)
        kappa = np.sqrt(1 - c**2) + c * (np.pi - angle)
        C = wv * np.outer(s, s) * kappa / (2 * np.pi) + bv
        backward = wv * (np.pi - angle) / (2 * np.pi) * theta
        theta = (fixed <= l) * C + backward
    return {"all": theta, "hidden": backward, "last": C}


def empirical(activation, depth, wv, bv, x, *, width, networks, key):
    """Tangent kernels of random networks of the docstring, by automatic differentiation."""
    sizes = [x.shape[1], *[width] * depth, 1]

    def net(params, row):
        h = row
        for l, (W, b) in enumerate(params):
            z = math.sqrt(wv / W.shape[1]) * W @ h + math.sqrt(bv) * b
            h = activation(z) if l < depth else z
        return h[0]

    def one(key):
        keys = jr.split(key, 2 * (depth + 1))
        params = [
            (jr.normal(keys[2 * l], (sizes[l + 1], sizes[l])), jr.normal(k, (sizes[l + 1],)))
            for l, k in enumerate(keys[1::2])
        ]
        jac = jax.vmap(jax.grad(net), in_axes=(None, 0))(params, x)
        flat = [g.reshape(len(x), -1) for layer in jac for g in layer]
        parts = [jnp.matmul(g, g.T, precision="highest") for g in flat]
        hidden, last = sum(parts[:-2]), sum(parts[-2:])
        return jnp.stack([hidden + last, hidden, last, sum(parts[2:])])

    return np.asarray(jax.lax.map(one, jr.split(key, networks)), np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "depth"), [("relu", 1), ("relu", 2), ("erf", 2), ("tanh", 2), ("gelu", 1)]
)
def test_finite_networks_converge_to_the_kernels(activation, depth, getkey):
    # Means over 100 networks, 4 standard errors: each of the 24 entries fails with probability
    # 1.2e-4 (Student's t), so a test fails on a fresh seed with probability at most 0.003. The bias
    # of width 400 is of order 1/400, within a standard error.
    x = jnp.asarray(rows(3), jnp.float32)
    samples = empirical(
        ul.activation(activation), depth, 1.5, 0.3, x, width=400, networks=100, key=getkey()
    )
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
    parts = [*({"trained": trained} for trained in TRAINED), {"fixed_layers": 1}]
    for part, chosen in enumerate(parts):
        exact = np.asarray(
            ntk(x, depth=depth, activation=activation, weight_variance=1.5, bias_variance=0.3,
                **chosen)
        )  # fmt: skip
        assert (np.abs(mean[part] - exact) / error[part]).max() < 4


@pytest.mark.parametrize("bias", [0, 0.4])
@pytest.mark.parametrize("trained", TRAINED)
def test_relu_follows_the_recursion(bias, trained):
    x = rows(12)
    ours = ntk(x, depth=3, weight_variance=1.7, bias_variance=bias, trained=trained)
    expected = naive_relu(x, 3, 1.7, bias)[trained]
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=3e-7)  # its own diagonal's arccos
    off = ~np.eye(12, dtype=bool)
    np.testing.assert_allclose(np.asarray(ours)[off], expected[off], rtol=1e-13)


@pytest.mark.parametrize("fixed", [1, 2, 3])
def test_fixed_first_layers_follow_the_recursion(fixed):
    x, off = rows(12), ~np.eye(12, dtype=bool)
    ours = np.asarray(ntk(x, depth=3, bias_variance=0.4, fixed_layers=fixed))
    expected = naive_relu(x, 3, 2.0, 0.4, fixed)["all"]
    np.testing.assert_allclose(ours[off], expected[off], rtol=1e-13)
    np.testing.assert_allclose(ours, expected, rtol=3e-7)


def test_one_program_serves_every_number_of_fixed_layers(compilations):
    ntk(rows(), depth=3, weight_variance=1.9)
    compilations.clear()
    every = [np.asarray(ntk(rows(), depth=3, fixed_layers=j)) for j in range(4)]
    assert compilations == []
    np.testing.assert_array_equal(every[3], np.asarray(nngp(rows(), depth=3)))


@pytest.mark.parametrize("weight_variance", [2.0, 0.7])
def test_hidden_layer_of_one_relu_layer_is_relu_gram_up_to_scale(weight_variance):
    x, other = rows(9), rows(4, seed=1)
    scale = weight_variance**2 / 4
    for pair in [(x,), (x, other)]:
        ours = ntk(*pair, weight_variance=weight_variance, trained="hidden")
        np.testing.assert_allclose(
            np.asarray(ours), scale * np.asarray(relu_gram(*pair)), rtol=1e-14
        )


@pytest.mark.parametrize("activation", ["relu", slow("tanh")])
def test_all_is_hidden_plus_last_and_last_is_nngp(activation):
    options = {"depth": 2, "activation": activation, "bias_variance": 0.2}
    x = rows()
    parts = {trained: np.asarray(ntk(x, trained=trained, **options)) for trained in TRAINED}
    np.testing.assert_allclose(parts["all"], parts["hidden"] + parts["last"], rtol=1e-14)
    np.testing.assert_array_equal(parts["last"], np.asarray(nngp(x, **options)))


CLOSED = {
    "erf": jax.scipy.special.erf,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "exp": jnp.exp,
    "identity": lambda z: z,
}


@pytest.mark.parametrize("name", CLOSED)
def test_series_agrees_with_the_closed_form_to_rounding(name):
    # Two routes: Hermite series of a Python function against the formula; parallel, nearly
    # parallel and antipodal rows included.
    x = rows(8)
    x[5:] = x[0], x[0] + 1e-4, -x[1]
    x *= 0.5 if name == "exp" else 1.0
    options = {"depth": 2, "weight_variance": 1.0, "bias_variance": 0.1}
    closed = np.asarray(ntk(x, activation=name, **options))
    series = np.asarray(ntk(x, activation=CLOSED[name], **options))
    scale = np.sqrt(np.outer(np.diag(closed), np.diag(closed)))
    assert np.abs((series - closed) / scale).max() < 1e-13


@pytest.mark.parametrize(("name", "power"), [("relu", 1), ("relu3", 3)])
def test_series_of_a_kinked_activation_is_exact_away_from_parallel_and_warns(name, power):
    # |c|^510 is below 1e-16 for |c| < 0.93; nearer to 1 the warning states the error.
    x = np.array([[1.0, 0], [0.5, 0.5], [-1, 0.6], [0, 2], [1, 0.01]])
    closed = np.asarray(ntk(x, activation=name))

    def kinked(z):
        return jnp.where(z >= 0, z, 0) ** power / math.factorial(power)

    with pytest.warns(UnlazyWarning, match="leaves up to"):
        series = np.asarray(ntk(x, activation=kinked))
    error = np.abs(series - closed) / np.sqrt(np.outer(np.diag(closed), np.diag(closed)))
    np.testing.assert_allclose(error[:4, :4], 0, atol=2e-15)
    assert error[0, 4] < (2e-3 if power == 1 else 1e-9)
    assert np.diag(error).max() < 1e-14


def test_polynomial_agrees_with_moments_of_gaussians():
    # phi = z^2 - 1 + z/2: E[phi phi'] = (q1-1)(q2-1) + 2 C^2 + C/4 and E[phi' phi'] = 4C + 1/4.
    x = rows()
    C = 2 * x @ x.T / 4
    q = np.diag(C)
    value = np.outer(q - 1, q - 1) + 2 * C**2 + C / 4
    phi = ul.polynomial([-1, 0.5, 1])
    np.testing.assert_allclose(
        np.asarray(nngp(x, activation=phi)), 2 * value, rtol=1e-11, atol=1e-13
    )
    expected = 2 * (4 * C + 0.25) * C
    ours = np.asarray(ntk(x, activation=phi, trained="hidden"))
    np.testing.assert_allclose(ours, expected, rtol=1e-11, atol=1e-13)


def test_series_agrees_with_two_dimensional_gauss_hermite():
    # A third route, for an activation without closed form: tensor quadrature of each entry.
    x = rows(4) / 2
    g, w = np.polynomial.hermite_e.hermegauss(150)
    w = w / w.sum()
    C = 1.2 * x @ x.T / 4 + 0.3
    expected = np.empty((4, 4))
    for i in range(4):
        for j in range(4):
            u = np.sqrt(C[i, i]) * g
            c = C[i, j] / np.sqrt(C[i, i] * C[j, j])
            v = np.sqrt(C[j, j]) * (c * g[:, None] + np.sqrt(max(1 - c**2, 0)) * g[None])
            expected[i, j] = w * np.tanh(u) @ np.tanh(v) @ w
    ours = nngp(x, activation="tanh", weight_variance=1.2, bias_variance=0.3)
    np.testing.assert_allclose(np.asarray(ours), 1.2 * expected + 0.3, rtol=1e-9)


@pytest.mark.parametrize(
    ("activation", "n"), [("relu", 1), ("relu", 300), ("erf", 130), ("erf", 300), slow("tanh", 300)]
)
def test_matrix_is_symmetric_to_the_last_bit_and_equals_the_cross_kernel(activation, n, getkey):
    x = np.asarray(sphere(n, 6, key=getkey()))
    options = {"activation": activation, "depth": 2, "bias_variance": 0.1}
    K = np.asarray(ntk(x, **options))
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, np.asarray(ntk(x, x.copy(), **options)), rtol=1e-13, atol=1e-14)
    assert np.linalg.eigvalsh(K)[0] > -1e-13 * n


def exact_relu_ntk(theta, depth):
    """Tangent kernel of unit covariance at an angle, in 60 digits; 1 + depth at angle 0."""
    with mpmath.workdps(60):
        theta = mpmath.mpf(theta)
        total = c = mpmath.cos(theta)
        for _ in range(depth):
            slope = (mpmath.pi - theta) / mpmath.pi
            c = (mpmath.sin(theta) + (mpmath.pi - theta) * c) / mpmath.pi
            theta = mpmath.acos(c)
            total = c + slope * total
        return depth + 1 - total


@pytest.mark.parametrize("angle", [1e-2, 1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("depth", [1, 6])
def test_angle_of_nearly_parallel_rows_survives_every_layer(angle, depth, x64):
    # Through a rounded cosine, an angle below 1e-8 would be lost in the first layer.
    x = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    K = np.asarray(ntk(x, depth=depth))
    assert K[0, 0] == pytest.approx(depth + 1, rel=1e-15)
    gap = float(exact_relu_ntk(angle, depth))
    assert K[0, 0] - K[0, 1] == pytest.approx(gap, abs=1e-14 * (depth + 1), rel=1e-12)


def test_small_rows_under_a_large_bias_keep_their_angle(x64):
    # The correlations are all 1 - 1e-12; the reference is the same recursion in 50 digits.
    x = 1e-6 * rows(3)
    K = np.asarray(ntk(x, bias_variance=1.0, trained="hidden"))
    with mpmath.workdps(50):
        X = mpmath.matrix(x.tolist())
        C = X * X.T / 2
        C = [[C[i, j] + 1 for j in range(3)] for i in range(3)]
        for i, j in [(0, 1), (0, 2), (1, 2)]:
            theta = mpmath.acos(C[i][j] / mpmath.sqrt(C[i][i] * C[j][j]))
            expected = 2 * (mpmath.pi - theta) / (2 * mpmath.pi) * C[i][j]
            assert abs(K[i, j] - float(expected)) < 3e-15


def test_scaling_the_rows_scales_the_relu_kernel():
    x, scale = rows(), np.array([1e-100, 1e-3, 1, 1, 10, 1e3, 1e100])
    K = np.asarray(ntk(x, depth=2))
    scaled = np.asarray(ntk(x * scale[:, None], depth=2))
    np.testing.assert_allclose(scaled / np.outer(scale, scale), K, rtol=1e-12)


def test_long_rows_turn_erf_into_the_arcsine_of_the_angle():
    x = rows()
    K = np.asarray(nngp(1e9 * x, activation="erf", weight_variance=1.0))
    np.testing.assert_allclose(K, 2 / np.pi * np.asarray(ul.kernels.arcsin(x)), atol=1e-8)


def test_different_activations_never_share_what_was_compiled():
    # Their duals have no fields: as NamedTuples they would be equal, and jit would mix them up.
    x = rows()
    kernels = [np.asarray(ntk(x, activation=name)) for name in ("relu", "erf", "sin", "identity")]
    linear = np.asarray(ntk(x, activation="identity"))
    np.testing.assert_allclose(linear, 2 * 2 * (2 * x @ x.T / 4), rtol=1e-12)
    assert all(np.abs(K - linear).max() > 0.1 for K in kernels[:-1])


def test_zero_rows_need_a_bias():
    x = np.array([[0.0, 0.0], [1.0, 2.0]])
    K = np.asarray(ntk(x, bias_variance=1.0, weight_variance=2.0))
    assert K[0, 0] == pytest.approx(2 * 0.5 * 1 + 1 + 2 * 0.5 * 1)
    with pytest.raises(ValueError, match="`x1` must have no row of zeros, got zeros in row 0"):
        ntk(x)


@pytest.mark.parametrize("activation", ["relu", "erf", slow("tanh")])
def test_float32_agrees_with_float64_to_its_precision(activation):
    x, options = rows(20) / 2, {"activation": activation, "depth": 2}
    single = ntk(x, dtype="float32", **options)
    assert single.dtype == jnp.float32
    double = np.asarray(ntk(x, **options))
    np.testing.assert_allclose(np.asarray(single), double, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", slow("tanh")])
def test_jit_and_gradient_agree_with_the_plain_call(activation, x64):
    x, direction = jnp.asarray(rows()), jnp.asarray(rows(seed=3))

    def value(t):
        return jnp.sum(ntk(x + t * direction, activation=activation, weight_variance=0.5))

    assert float(jax.jit(value)(0.0)) == pytest.approx(float(value(0.0)), rel=1e-12)
    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    assert float(jax.grad(value)(0.0)) == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "`depth` must be an integer >= 1, got depth=0"),
        ({"weight_variance": 0.0}, "`weight_variance` must be a positive number"),
        ({"bias_variance": -1.0}, "`bias_variance` must be a positive number, got"),
        ({"trained": "first"}, "`trained` must be a known name, got trained='first'"),
        ({"fixed_layers": 2}, "`fixed_layers` must be an integer from 0 to 1, got fixed_layers=2"),
        ({"activation": "rellu"}, "got activation='rellu'. Did you mean 'relu'"),
        ({"dtype": "float16"}, "`dtype` must be float32 or float64"),
    ],
)
def test_bad_arguments_get_one_clear_error(options, message, no_shape_checker):
    with pytest.raises((ValueError, UnknownNameError), match=message):
        ntk(np.eye(2), **options)


def test_kernels_that_overflow_are_refused():
    with pytest.raises(ValueError, match="`x1` must keep every layer's outputs within the range"):
        ntk(np.array([[100.0, 0.0], [1.0, 0.0]]), activation="exp")
    with pytest.raises(ValueError, match=r"`x2` must keep every .* infinite kernel in row 1\."):
        ntk(np.eye(2), np.array([[1.0, 0.0], [100.0, 0.0]]), activation="exp")


def test_a_changed_closure_of_an_activation_changes_the_kernel(compilations):
    power = 1

    def activation(z):
        return z**power

    x = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    options = {"activation": activation, "weight_variance": 1.0}
    np.testing.assert_allclose(nngp(x, **options), x @ x.T / 2, rtol=1e-9)
    compilations.clear()
    nngp(x, **options)
    assert compilations == []
    power = 2  # E[u^2 v^2] of Gaussians of variances a and b and covariance c is ab + 2c^2
    C = x @ x.T / 2
    expected = np.outer(np.diag(C), np.diag(C)) + 2 * C**2
    np.testing.assert_allclose(nngp(x, **options), expected, rtol=1e-9)
