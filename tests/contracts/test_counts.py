# SPDX-License-Identifier: Apache-2.0
"""A count beyond what can be computed is an error at once: no process hangs, or is aborted."""

import time

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy import escape, kernels, labels, special, taylor
from unlazy.core import checks
from unlazy.papers import allenzhu_li_liang2019, arora2019, bai_lee2020, shared
from unlazy.papers.allenzhu_li_liang2019 import indicator_function

KEY = jr.key(0)
HUGE = [2**31, 10**30, 10**400]
SIN = shared.taylor_series("sin")
T = np.linspace(-1, 1, 3)
X = np.eye(3)

CALLS = {
    "hermite": ("degree", lambda n: special.hermite(T, n)),
    "hermite_coefficients": ("degree", lambda n: special.hermite_coefficients(jnp.tanh, n)),
    "hermite_affine": ("degree", lambda n: allenzhu_li_liang2019.hermite_affine(n, factor=0.5)),
    "hermite_indicator": ("degree", lambda n: allenzhu_li_liang2019.hermite_indicator(T, n)),
    "truncated_moments": ("degree", lambda n: allenzhu_li_liang2019.truncated_moments(T, n)),
    "indicator_window": ("i", allenzhu_li_liang2019.indicator_window),
    "relu_series": ("degree", bai_lee2020.relu_series),
    "gegenbauer": ("degree", lambda n: special.gegenbauer(T, 3, n)),
    "gegenbauer_power": ("power", lambda n: special.gegenbauer_power(3, n)),
    "gegenbauer_rule": ("nodes", lambda n: special.gegenbauer_rule(3, n)),
    "zonal_rule": ("degree", lambda n: special.zonal_rule(3, n)),
    "funk_hecke": ("degree", lambda n: special.funk_hecke(jnp.tanh, 3, n)),
    "harmonic_dimension": ("k", lambda n: special.harmonic_dimension(100, n)),
    "harmonic_count": ("k", lambda n: special.harmonic_count(5, n)),
    "krawtchouk": ("d", lambda n: special.krawtchouk(n, n)),
    "subsets": ("d", lambda n: special.subsets(n, 3)),
    "subsets of half": ("size", lambda n: special.subsets(1000, min(n, 500))),
    "series_product": ("degree", lambda n: shared.series_product(SIN, SIN, n)),
    "series_composition": ("degree", lambda n: shared.series_composition(SIN, SIN, n)),
    "chebyshev_series": ("degree", lambda n: shared.chebyshev_series(np.tanh, n)),
    "taylor of a series": ("order", SIN.taylor),
    "ntk_series_coefficients": ("degree", arora2019.ntk_series_coefficients),
    "degree_spectrum": ("degree", lambda n: labels.degree_spectrum(X, np.ones(3), degree=n)),
    "matched_moments": ("order", escape.matched_moments),
    "derivative": ("k", lambda n: ul.activation("tanh").derivative(n)),
    "taylor of an activation": ("order", lambda n: ul.activation("tanh").taylor(n)),
    "terms": ("order", lambda n: taylor.terms(lambda w, x: x @ w, X[0], X[1], X, n)),
    "expand": ("order", lambda n: taylor.expand(lambda w, x: x @ w, X[0], n)),
    "ntk": ("depth", lambda n: kernels.ntk(X, depth=n)),
    "tangent": ("layers", lambda n: kernels.tangent(X, layers=n)),
    "trace": ("probes", lambda n: kernels.operator(kernels.relu_gram, X).trace(
        np.sqrt, probes=n, key=KEY)),
    "top_eigen": ("k", lambda n: kernels.operator(kernels.relu_gram, X).top_eigen(n, key=KEY)),
    "sphere": ("n", lambda n: ul.data.sphere(n, 3, key=KEY)),
    "TwoLayer": ("width", lambda n: ul.nets.TwoLayer(3, n)),
    "indicator_function": ("degree", lambda n: indicator_function("sin", degree=n)),
}  # fmt: skip


@pytest.mark.usefixtures("no_shape_checker")
@pytest.mark.parametrize("name", CALLS)
def test_a_count_beyond_reach_is_an_error_at_once(name):
    argument, call = CALLS[name]
    for count in HUGE:
        start = time.process_time()
        with pytest.raises(ValueError, match=f"`{argument}` must"):
            call(count)
        assert time.process_time() - start < 5  # compilation of a check included


def test_a_limit_is_named_and_formulas_have_none():
    with pytest.raises(
        ValueError, match=r"`n` must be an integer from 1 to 2147483647, got n=10\^40"
    ):
        checks.check_count(10**40, "n")
    checks.check_count(2**31 - 1, "n")
    checks.check_count(10**40, "n", most=None)
