# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.data import LowPlusSparse, Target, sphere, target

D = 6


def points(n, d=D, seed=0):
    return np.asarray(sphere(n, d, radius=d**0.5, key=jax.random.key(seed)), np.float64)


def parted(name, **options):
    f = target(name, **options)
    assert isinstance(f, LowPlusSparse)
    return f


def second_moment(A, B, d):
    """E x^T A x x^T B x on the sphere of radius sqrt(d), for symmetric matrices."""
    return d / (d + 2) * (np.trace(A) * np.trace(B) + 2 * np.sum(A * B))


def test_the_target_of_figure_1_has_its_mean_and_both_levels():
    # NB-50: E f*^2 = 1 + 2(d-1)/(d+2), 2.94 at d = 100, and 2(d-1)/(d+2) without the linear part.
    d = 100
    f = parted("linear-plus-square", beta=np.ones(d) * 3)
    B = np.outer(*2 * [np.asarray(f.sparse.betas[0])])
    assert np.trace(B) == pytest.approx(1, rel=1e-12)  # which is E (beta.x)^2
    square = second_moment(B, B, d) - 1
    assert square == pytest.approx(2 * (d - 1) / (d + 2), rel=1e-12)
    assert square + 1 == pytest.approx(2.94, abs=5e-3)
    # The same by 20000 draws: five standard errors, failure probability below 1e-5 each.
    x = points(20_000, d)
    y = f(x)
    for values, mean in ((y, 0.0), (y**2, square + 1), (f.sparse(x) - 1, 0.0)):
        assert values.mean() == pytest.approx(mean, abs=5 * values.std() / len(x) ** 0.5)
    np.testing.assert_allclose(f.low(x), x[:, 0] - 1, rtol=1e-14)


def test_the_target_of_figure_2_has_two_parts_of_mean_square_one_half():
    rng = np.random.default_rng(0)
    f = parted("quadratic-plus-cubic", matrix=rng.standard_normal((D, D)), beta=rng.normal(size=D))
    A = np.asarray(f.quadratic)
    np.testing.assert_array_equal(A, A.T)
    assert np.trace(A) == pytest.approx(0, abs=1e-14)
    assert second_moment(A, A, D) == pytest.approx(0.5, rel=1e-12)
    # A sixth moment on the sphere, by 200000 draws: five standard errors.
    x = points(200_000)
    cubes = f.sparse(x) ** 2
    assert cubes.mean() == pytest.approx(0.5, abs=5 * cubes.std() / len(x) ** 0.5)
    naive = np.array([row @ A @ row for row in x[:20]])
    np.testing.assert_allclose(f.low(x[:20]), naive, rtol=1e-12, atol=1e-14)


def test_the_sum_of_all_parts_is_the_written_formula():
    rng = np.random.default_rng(1)
    A, gamma, beta = rng.normal(size=(D, D)), rng.normal(size=D), rng.normal(size=(2, D))
    f = parted(
        "low-degree-plus-sparse",
        alphas=[0.5, -2],
        betas=beta,
        powers=[3, 4],
        constant=7,
        linear=gamma,
        quadratic=A,
    )
    assert isinstance(f, Target)
    x = points(9)
    expected = [
        7 + gamma @ row + row @ A @ row + 0.5 * (beta[0] @ row) ** 3 - 2 * (beta[1] @ row) ** 4
        for row in x
    ]
    np.testing.assert_allclose(f(x), expected, rtol=1e-11)
    np.testing.assert_allclose(f.low(x) + f.sparse(x), f(x), rtol=1e-14)
    single = jnp.asarray(x, jnp.float32)
    assert f(single).dtype == jnp.float32
    np.testing.assert_allclose(jax.jit(f)(single), expected, rtol=1e-4, atol=1e-4)


def test_scale_of_the_arguments_does_not_matter_where_only_directions_count():
    rng = np.random.default_rng(2)
    matrix, beta, x = rng.normal(size=(D, D)), rng.normal(size=D), points(5)
    one = target("quadratic-plus-cubic", matrix=matrix, beta=beta)
    other = target("quadratic-plus-cubic", matrix=3 * matrix + 5 * np.eye(D), beta=9 * beta)
    np.testing.assert_allclose(one(x), other(x), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_low_parts_of_any_degree_are_their_sums_over_indices(dtype):
    # Not symmetric, and with a gap: no quadratic form. The sums in full, by einsum.
    rng, d = np.random.default_rng(2), 4
    A3, A4, beta = rng.normal(size=(d,) * 3), rng.normal(size=(d,) * 4), rng.normal(size=(1, d))
    f = parted("low-degree-plus-sparse", alphas=[0.3], betas=beta, powers=[5], linear=beta[0],
               higher=[A3, A4])  # fmt: skip
    x = points(7, d).astype(dtype)
    wide = x.astype(np.float64)
    low = wide @ beta[0] + np.einsum("ijk,ni,nj,nk->n", A3, *[wide] * 3)
    low += np.einsum("ijkl,ni,nj,nk,nl->n", A4, *[wide] * 4)
    tolerance = 1e3 * np.finfo(dtype).eps
    for values in (f.low(x), f.low(jnp.asarray(x)), jax.jit(f.low)(x)):
        assert values.dtype == (dtype if isinstance(values, np.ndarray) else np.float32)
        rounding = tolerance if isinstance(values, np.ndarray) else 1e-4
        np.testing.assert_allclose(values, low, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(f(x), low + 0.3 * (wide @ beta[0]) ** 5, rtol=1e-4)
    assert [np.ndim(tensor) for tensor in f.tensors] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(f.tensors[3], A3)


def test_a_low_part_of_degree_k_is_homogeneous_by_orders():
    # Exactly: the form of order 5 alone is 32 times as large at twice the point.
    rng, d = np.random.default_rng(3), 3
    zero = [np.zeros((d,) * order) for order in (3, 4)]
    f = parted("low-degree-plus-sparse", alphas=[1], betas=np.eye(d)[:1], powers=[6],
               higher=[*zero, rng.normal(size=(d,) * 5)])  # fmt: skip
    x = points(5, d)
    np.testing.assert_array_equal(f.low(2 * x), 32 * f.low(x))
    line = parted("low-degree-plus-sparse", alphas=[1], betas=np.ones((1, 1)), powers=[4],
                  quadratic=np.full((1, 1), 2.0), higher=[np.ones((1, 1, 1))])  # fmt: skip
    np.testing.assert_array_equal(line.low(np.array([[3.0]])), [2 * 9 + 27])


def test_wrong_shapes_and_empty_parts_are_refused(no_shape_checker):
    with pytest.raises(ValueError, match=r"`linear` must have shape \(2,\), got .*\(3,\)"):
        target("low-degree-plus-sparse", alphas=[1], betas=np.eye(2)[:1], powers=[2],
               linear=np.ones(3))  # fmt: skip
    with pytest.raises(ValueError, match=r"`higher\[1\]` must have shape \(2, 2, 2, 2\), got"):
        target("low-degree-plus-sparse", alphas=[1], betas=np.eye(2)[:1], powers=[2],
               higher=[np.ones((2, 2, 2)), np.ones((2, 2, 2))])  # fmt: skip
    with pytest.raises(ValueError, match=r"`matrix` must have shape \(2, 2\)"):
        target("quadratic-plus-cubic", matrix=np.eye(3), beta=np.ones(2))
    with pytest.raises(ValueError, match="no multiple of the identity"):
        target("quadratic-plus-cubic", matrix=4 * np.eye(2), beta=np.ones(2))
    with pytest.raises(ValueError, match="`beta` must be a nonzero vector"):
        target("linear-plus-square", beta=np.zeros(3))
    with pytest.raises(ValueError, match="`coordinate` must be below 3, got coordinate=3"):
        target("linear-plus-square", beta=np.ones(3), coordinate=3)
    with pytest.raises(ValueError, match=r"`x` must have 3 columns, got x.shape=\(5, 6\)"):
        target("linear-plus-square", beta=np.ones(3))(points(5))
