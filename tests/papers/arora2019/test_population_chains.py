# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import pytest

from unlazy.papers.arora2019 import (
    chain_width,
    movement_bound,
    population_loss,
    population_loss_chain,
    uniform_convergence,
)
from unlazy.papers.shared import rademacher_probable

SIZES = {"smallest_eigenvalue": 0.1, "init_scale": 1e-5}


@pytest.mark.parametrize(("energy", "n", "m"), [(20.0, 1000, 10**48), (0.3, 50, 10**45)])
def test_the_chain_is_uniform_convergence_on_the_class_of_its_radius(energy, n, m):
    # D.3 once more: Lemma 5.3 gives the class, Lemma 5.4 its complexity, Theorem B.1 the bound.
    delta = 0.06
    chain = population_loss_chain(energy, n, m, delta=delta, **SIZES)
    moved = movement_bound(energy, n, m, delta=delta / 6, **SIZES)
    assert moved.value <= chain.radius < moved.value + 1
    assert chain.radius <= chain.radii
    complexity = rademacher_probable(
        n,
        m,
        distance=chain.radius,
        neuron_distance=moved.neuron_movement,
        init_scale=1e-5,
        delta=delta / 6,
    )
    gap = uniform_convergence(complexity, n, delta=delta / 3 / chain.radii)
    assert chain.value == pytest.approx(1 / math.sqrt(n) + gap, rel=1e-9)
    assert chain.leading == population_loss(energy, n, variant="leading")


def test_in_the_limit_only_what_the_theorem_names_is_left():
    # The paper's variant allows 4/sqrt(n) for rounding and width; the limit has sqrt(2/n) at most.
    n = 500
    for energy in (0.5, 30.0, 4000.0):
        far = {"smallest_eigenvalue": 0.1, "init_scale": 1e-9}
        chain = population_loss_chain(energy, n, 10**90, **far)
        assert chain.width_errors < 1e-4
        assert 0 <= chain.rounding <= math.sqrt(2 / n)
        paper = population_loss(energy, n, variant="paper", smallest_eigenvalue=0.1)
        leading = population_loss(energy, n, variant="leading")
        assert leading + 1 / math.sqrt(n) < chain.value < paper
        assert chain.is_wide_enough


def test_the_width_is_where_the_errors_fit_within_a_factor_of_two():
    width = chain_width(100, **SIZES)
    costliest = 100 / 0.1
    at, below = (population_loss_chain(costliest, 100, int(m), **SIZES) for m in (width, width / 2))
    assert at.is_wide_enough
    assert not below.is_wide_enough
    assert at.rounding + at.width_errors <= 4 / math.sqrt(100)
    paper = population_loss(costliest, 100, variant="paper", smallest_eigenvalue=0.1)
    assert at.value <= paper * (1 + 1e-2)  # N may be one larger, which adds to the logarithm


def test_the_width_is_the_inverse_square_of_the_scale_times_a_polynomial():
    # Theorem 5.1. The largest error is the drift of the residuals, sqrt(n) Delta r / (mu lambda_0),
    # of order n^4 / (lambda_0^3 kappa delta sqrt(m)), and a constant is allowed. Widths are powers
    # of two, so an exponent over a factor 16 is known to 1/4. Measured: -2, -2, -6 and 7.75.
    small = {"smallest_eigenvalue": 0.1, "init_scale": 1e-9, "delta": 0.05}

    def exponent(name, first):
        sizes: dict[str, Any] = {"n": 100} | small
        widths = [chain_width(**sizes | {name: value}) for value in (first, 16 * first)]
        return math.log(widths[1] / widths[0], 16)

    assert exponent("init_scale", 1e-9) == pytest.approx(-2, abs=0.25)
    assert exponent("delta", 0.05) == pytest.approx(-2, abs=0.25)
    assert exponent("smallest_eigenvalue", 0.01) == pytest.approx(-6, abs=0.25)
    assert exponent("n", 100) == pytest.approx(8, abs=0.3)


def test_a_scale_too_large_for_any_width_is_infinite_and_so_is_a_narrow_network():
    assert chain_width(100, smallest_eigenvalue=0.1, init_scale=0.01) == math.inf
    narrow = population_loss_chain(20.0, 1000, 10**9, **SIZES)
    assert narrow.value == math.inf
    assert not narrow.is_wide_enough


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"energy": 1001.0}, "`energy` must be at most n / smallest_eigenvalue=1000"),
        ({"energy": math.inf}, "`energy` must be finite and >= 0"),
        ({"delta": 0.0}, "`delta` must be a failure probability"),
        ({"n": 0}, "`n` must be an integer >= 1"),
        ({"smallest_eigenvalue": 0.0}, "`smallest_eigenvalue` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(change, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        population_loss_chain(**{"energy": 1.0, "n": 100, "m": 10} | SIZES | change)
