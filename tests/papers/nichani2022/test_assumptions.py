# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math

import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.losses import pointwise
from unlazy.papers.nichani2022 import loss_assumption, target_assumption
from unlazy.papers.nichani2022.assumptions import sphere_mean_square


def failed(report):
    return {condition.text for condition in report.failed}


def test_a_mean_square_of_a_quadratic_form_is_that_of_the_closed_form():
    # E (x'Ax)^2 = d/(d+2) (tr^2 A + 2 |A|^2) for symmetric A, and the constant crosses the trace.
    d, rng = 7, np.random.default_rng(0)
    A, gamma, c = rng.normal(size=(d, d)), rng.normal(size=d), 1.7
    S = (A + A.T) / 2
    expected = d / (d + 2) * (np.trace(A) ** 2 + 2 * np.sum(S**2))
    expected += gamma @ gamma + c**2 + 2 * c * np.trace(A)
    assert sphere_mean_square([np.array(c), gamma, A], d) == pytest.approx(expected, rel=1e-13)


def test_a_mean_square_of_a_power_is_the_moment_of_a_coordinate():
    # E (b.x)^2p = d^p (2p-1)!! / (d (d+2) ... (d+2p-2)) |b|^2p, for orders 3 to 5.
    d, b = 4, np.array([1.0, -2.0, 0.5, 0.0])
    for p in (3, 4, 5):
        power = b
        for _ in range(p - 1):
            power = np.multiply.outer(power, b)
        odd, even = (math.prod(range(first, first + 2 * p, 2)) for first in (1, d))
        expected = d**p * odd / even * (b @ b) ** p
        tensors = [np.zeros((d,) * order) for order in range(p)] + [power]
        assert sphere_mean_square(tensors, d) == pytest.approx(expected, rel=1e-12)


def test_a_mean_square_is_that_of_a_large_sample():
    d, rng = 5, np.random.default_rng(1)
    f = ul.data.target("low-degree-plus-sparse", alphas=[1], betas=np.eye(d)[:1], powers=[5],
                       constant=-2, linear=rng.normal(size=d), quadratic=rng.normal(size=(d, d)),
                       higher=[rng.normal(size=(d,) * 3), rng.normal(size=(d,) * 4)])  # fmt: skip
    assert isinstance(f, ul.data.LowPlusSparse)
    x = rng.normal(size=(50_000, d))
    x *= math.sqrt(d) / np.linalg.norm(x, axis=1, keepdims=True)
    squares = np.asarray(f.low(x)) ** 2
    # Five standard errors: failure probability below 1e-6, were the seed not fixed.
    error = 5 * squares.std() / math.sqrt(len(x))
    assert target_assumption(f, 4).mean_square == pytest.approx(squares.mean(), abs=error)


def test_every_part_of_the_assumption_on_targets_is_named_where_it_fails():
    d = 6
    good = {"alphas": [1.0, -0.5], "betas": np.eye(d)[:2], "powers": [3, 3],
            "quadratic": np.diag([1, -1, 0, 0, 0, 0]) / math.sqrt(4 * d / (d + 2))}  # fmt: skip

    def check(degree=2, **changed):
        f = ul.data.target("low-degree-plus-sparse", **(good | changed))
        return target_assumption(f, degree)

    assert check().valid
    assert check().terms == 2
    assert failed(check(alphas=[1.0, -1.5])) == {"max |alpha_i| <= 1"}
    assert failed(check(betas=np.eye(d)[:2] * 1.1)) == {"max | ||beta_i|| - 1 | = 0"}
    assert failed(check(powers=[3, 4])) == {"max |p_i - (k + 1)| = 0"}
    assert failed(check(constant=0.1)) == {"|E f_k^2 - 1| = 0"}
    assert failed(check(degree=1)) == {"degree of f_k <= k", "max |p_i - (k + 1)| = 0"}
    assert "fails by 2" in str(check(degree=1))
    with pytest.raises(TypeError, match="`target` must be a LowPlusSparse"):
        target_assumption(ul.data.target("two-xor"), 1)


def test_the_targets_of_the_figures_are_the_papers_up_to_their_sizes():
    d = 30
    A = np.asarray(jr.normal(jr.key(0), (d, d)), np.float64)
    cubic = target_assumption(ul.data.target("quadratic-plus-cubic", matrix=A, beta=A[0]), 2)
    assert cubic.mean_square == pytest.approx(0.5, rel=1e-12)
    assert failed(cubic) == {"|E f_k^2 - 1| = 0"}
    # x_1 - 1 has mean square 2.
    square = target_assumption(ul.data.target("linear-plus-square", beta=A[0]), 1)
    assert square.mean_square == pytest.approx(2, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "failures"),
    [
        ("log-cosh", set()),
        ("pseudo-huber", set()),
        ("logistic", {"max |l(y, y)| = 0"}),
        ("squared", {"max |l'| <= 1", "max l'' <= 1"}),
        ("half-squared", {"max |l'| <= 1"}),
    ],
)
def test_each_loss_fails_what_it_is_known_to_fail(loss, failures):
    report = loss_assumption(loss)
    assert failed(report) == failures
    assert report.lipschitz == pointwise(loss).lipschitz


def test_large_labels_break_the_bound_at_the_start_and_wrong_bounds_are_found_out():
    assert failed(loss_assumption("log-cosh", np.array([0.0, 3.0]))) == {"max l(y, 0) <= 1"}
    loss = pointwise("squared")
    claimed = dataclasses.replace(loss, name="claimed", lipschitz=1.0, curvature=1.0)
    report = loss_assumption(claimed)
    assert report.lipschitz == pytest.approx(100)  # 2 u at u = 50
    assert failed(report) == {"max |l'| <= 1", "max l'' <= 1"}
    # A concave one: the derivatives of the negative.
    negative = tuple(lambda z, y, f=f: -f(z, y) for f in pointwise("log-cosh").derivatives)
    concave = dataclasses.replace(loss, name="concave", derivatives=negative)
    assert "max -l'' = 0" in failed(loss_assumption(concave))
    with pytest.raises(ValueError, match="`y` must hold at least one label"):
        loss_assumption("log-cosh", [])
