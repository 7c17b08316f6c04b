# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.special import (
    gegenbauer,
    gegenbauer_coefficients,
    gegenbauer_rule,
    generic_shift,
    harmonic_dimension,
)


# NB-10, the reference numbers at d = 30.
@pytest.mark.parametrize(
    ("b", "slope", "curvature"),
    [
        (1.0, [0.177817, 0.053567, -0.024145, -0.018509], [0.052002, -0.035424, -0.033729]),
        (1.5, [0.148420, 0.065158, -0.006989, -0.017779], [0.063633, -0.010992, -0.032844]),
        (2.0, [0.116046, 0.065247, 0.007107, -0.011919], [0.064202, 0.009449, -0.022520]),
    ],
)
def test_coefficients_are_those_of_the_reference(b, slope, curvature):
    sigma = ul.activation("sigmoid", shift=b)
    np.testing.assert_allclose(gegenbauer_coefficients(sigma, 30, 3, 1), slope, atol=6e-7)
    np.testing.assert_allclose(gegenbauer_coefficients(sigma, 30, 2, 2), curvature, atol=6e-7)


@pytest.mark.parametrize("name", ["tanh", "gelu", "softplus"])
def test_the_series_gives_back_the_derivative_and_its_mean_square(name):
    d, sigma = 6, ul.activation(name, shift=0.5)
    c = gegenbauer_coefficients(sigma, d, 60, 1)
    rule = gegenbauer_rule(d, 200)  # another rule than the one inside
    with jax.enable_x64(True):
        values = np.asarray(sigma.derivative(1)(jnp.asarray(np.sqrt(d) * rule.nodes)))
    sizes = np.sqrt([harmonic_dimension(d, l) for l in range(61)])
    np.testing.assert_allclose((c * sizes) @ gegenbauer(rule.nodes, d, 60), values, atol=1e-9)
    assert np.sum(c**2) == pytest.approx(rule.weights @ values**2, rel=1e-12)


def test_without_a_shift_a_sigmoid_can_neither_learn_constants_nor_squares():
    report = generic_shift(ul.activation("sigmoid"), 30, degree=1)
    assert [(one.derivative, one.degree) for one in report.vanishing] == [(1, 1), (2, 0)]
    assert not report.is_generic
    assert report.suggested is not None
    again = generic_shift(ul.activation("sigmoid", shift=report.suggested), 30, degree=1)
    assert again.is_generic
    assert again.suggested == 0
    assert min(one.relative for one in again.needed) > 0.3


def test_the_shift_of_figure_1_is_bad_for_cubes_near_seven_quarters():
    # NB section 8, item 7: c_1(s'') vanishes near b = 1.75 at d = 30; b = 1 is good for k = 2.
    bad = generic_shift(ul.activation("sigmoid", shift=1.75), 30, degree=2)
    assert [(one.derivative, one.degree) for one in bad.vanishing] == [(2, 1)]
    assert generic_shift(ul.activation("sigmoid", shift=1.75), 30, degree=1).is_generic
    good = generic_shift(ul.activation("sigmoid", shift=1.0), 30, degree=2)
    assert good.is_generic
    assert next(one.relative for one in good.needed if one.derivative == 2) > 0.4


def test_the_needed_degrees_have_the_parity_of_the_power():
    report = generic_shift(ul.activation("gelu", shift=0.5), 10, degree=3)
    wanted = [(1, 0), (1, 1), (1, 2), (2, 2), (2, 0)]
    assert [(one.derivative, one.degree) for one in report.needed] == wanted
    only = generic_shift(ul.activation("relu"), 10, degree=2, derivatives=(1,))
    assert [(one.derivative, one.degree) for one in only.needed] == [(1, 0), (1, 1)]
    assert only.is_generic


def test_where_no_shift_helps_none_is_suggested():
    report = generic_shift(ul.activation("identity"), 10, degree=1)  # sigma'' is zero everywhere
    assert report.suggested is None
    assert (2, 0) in [(one.derivative, one.degree) for one in report.vanishing]


def test_bad_arguments_are_named():
    sigma = ul.activation("sigmoid")
    with pytest.raises(ValueError, match="`degree` must be an integer >= 0, got degree=-1"):
        gegenbauer_coefficients(sigma, 5, -1)
    with pytest.raises(ValueError, match="`d` must be an integer >= 2"):
        generic_shift(sigma, 1, 1)
    with pytest.raises(ValueError, match="`scale` must be a positive number"):
        gegenbauer_coefficients(sigma, 5, 2, scale=0)
    with pytest.raises(ValueError, match="`k` must be at most 1 for relu"):
        generic_shift(ul.activation("relu"), 5, 1)
    with pytest.raises(
        ValueError, match=r"`derivatives` must be of 1 and 2, got derivatives=\(3,\)"
    ):
        generic_shift(sigma, 5, 1, derivatives=(3,))
