# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.errors import UnknownNameError
from unlazy.data import Target, cube, target


def rows(n=7, d=4):
    return np.random.default_rng(0).standard_normal((n, d))


def test_two_xor_is_the_product_of_two_signs_on_the_cube():
    x = np.asarray(cube(50, 5, key=jax.random.key(0)))
    y = target("two-xor", coordinates=(1, 3))(x)
    np.testing.assert_array_equal(y, np.where(x[:, 1] == x[:, 3], 1, -1))
    assert set(y) == {-1.0, 1.0}


def test_a_product_is_the_difference_of_two_squares():
    # BL-38: two routes to the same function, monomials and ridge powers.
    x, e = rows(), np.eye(4)
    squares = target(
        "ridge-sum", alphas=[0.25, -0.25], betas=np.stack([e[0] + e[1], e[0] - e[1]]), powers=[2, 2]
    )
    np.testing.assert_allclose(target("two-xor")(x), squares(x), rtol=1e-12, atol=1e-15)


def test_powers_monomials_and_polynomials_agree_where_they_meet():
    x, e = rows(), np.eye(4)
    fourth = target("monomial", coordinates=(2, 2, 2, 2), coefficient=3)
    np.testing.assert_allclose(fourth(x), 3 * x[:, 2] ** 4, rtol=1e-14)
    ridge = target("ridge-power", beta=e[2], power=4, alpha=3)
    np.testing.assert_allclose(fourth(x), ridge(x), rtol=1e-14)
    both = target("sparse-polynomial", coefficients=[3, -2], monomials=[(2, 2, 2, 2), ()])
    np.testing.assert_allclose(both(x), fourth(x) - 2, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "options"),
    [("two-xor", {}), ("ridge-power", {"beta": np.ones(4), "power": 3, "alpha": 2})],
)
def test_values_keep_the_kind_and_dtype_of_the_inputs_and_compile(name, options):
    f, x = target(name, **options), rows()
    assert isinstance(f, Target)
    assert isinstance(f(x), np.ndarray)
    assert f(x).dtype == np.float64
    single = jnp.asarray(x, jnp.float32)
    assert f(single).dtype == jnp.float32
    np.testing.assert_allclose(jax.jit(f)(single), f(x), rtol=1e-5, atol=1e-6)
    # A float64 JAX array keeps its digits where x64 is on.
    with jax.enable_x64(True):
        np.testing.assert_allclose(f(jnp.asarray(x)), f(x), rtol=1e-14)


def test_bad_names_and_options_are_refused(no_shape_checker):
    with pytest.raises(UnknownNameError, match="Did you mean 'two-xor'"):
        target("2-xor")
    with pytest.raises(TypeError, match=r"target 'monomial', but it .*'degree'"):
        target("monomial", degree=2)
    with pytest.raises(TypeError, match=r"target 'ridge-power', but it missing .*'power'"):
        target("ridge-power", beta=np.ones(2))
    with pytest.raises(ValueError, match="`coordinates` must be two different ones"):
        target("two-xor", coordinates=(1, 1))
    with pytest.raises(ValueError, match="`coordinates` must be an integer >= 0"):
        target("monomial", coordinates=(-1,))
    with pytest.raises(ValueError, match="`powers` must be an integer >= 0, got powers=-1"):
        target("ridge-power", beta=np.ones(2), power=-1)
    with pytest.raises(ValueError, match="must be as many"):
        target("ridge-sum", alphas=[1.0], betas=np.eye(2), powers=[2, 2])
    with pytest.raises(ValueError, match="must be as many, at least one"):
        target("ridge-sum", alphas=[], betas=np.zeros((0, 2)), powers=[])
    with pytest.raises(ValueError, match="must be as many"):
        target("sparse-polynomial", coefficients=[1.0], monomials=[])
    with pytest.raises(ValueError, match=r"`x` must have at least 4 columns.*\(7, 3\)"):
        target("monomial", coordinates=(3,))(rows(7, 3))
    with pytest.raises(ValueError, match="`x` must have 2 columns"):
        target("ridge-power", beta=np.ones(2), power=2)(rows())
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, d\)"):
        target("two-xor")(np.ones(3))
