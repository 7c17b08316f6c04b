# SPDX-License-Identifier: Apache-2.0
"""The widths and starts on record at which `test_resnet_existence.py` does not measure."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import ResNet3Params
from unlazy.papers.allenzhu_li2019 import BiasedConcept, ResidualConcept, resnet_weights

D, K = 6, 2
WIDTHS = (1000, 4000, 16_000, 64_000, 256_000)


def concept(alpha=0.3, size=1.0):
    """RN-72's base functions, times a size; the composite is cubic, which one is not on record."""
    F = BiasedConcept.ridge(size * np.eye(2), [[0.2, 0.8, 0.5, -0.3], [0, -1, 0.4]], np.eye(D)[:2])
    G = BiasedConcept.ridge(np.eye(2), [[0, 0.6, 0.3, -0.4], [0.2, 0, 0.5, 0.3]], np.eye(2))
    return ResidualConcept(F, G, alpha)


def points(n=100, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def start(m, seed, sigma_w, sigma_v):
    rng = np.random.default_rng([72, m, seed])
    spread = sigma_v / math.sqrt(m)
    with jax.enable_x64(True):
        return ResNet3Params(
            W=jnp.asarray(sigma_w * rng.standard_normal((m, D))),
            b1=jnp.asarray(sigma_w * rng.standard_normal(m)),
            V=jnp.asarray(spread * rng.standard_normal((m, K))),
            b2=jnp.asarray(spread * rng.standard_normal(m)),
            A=jnp.asarray(rng.standard_normal((K, m)) / math.sqrt(m)),
        )


@functools.cache
def fits(m, truncation, power=-0.25, draws=3):
    spreads = {"sigma_w": m**power, "sigma_v": m**0.1}
    return [
        resnet_weights(
            start(m, seed, *spreads.values()), concept(), points(), truncation=truncation, **spreads
        )
        for seed in range(draws)
    ]


def rms(name, *where, **options):
    return math.sqrt(np.mean([getattr(fit, name) ** 2 for fit in fits(*where, **options)]))


@pytest.mark.slow
@pytest.mark.parametrize("truncation", ["none", "tight"])
def test_linear_parts_approach_the_signals_up_to_a_quarter_of_a_million_neurons(truncation):
    # RN-72, three draws each: F .128, .062, .025, .021, .012, exponent -.43; with B_i = 3 sqrt(i)
    # .188 to .0084, exponent -.56; theory -1/2. Three draws of ours: .10, .062, .028, .014, .0071
    # and exponent -.48, with the truncation as without: it changes an error by 1 % where the draws
    # are the same, so that what is on record are other draws. Single ones scatter by a quarter,
    # hence a factor of two.
    found = [rms("base_error", m, truncation) for m in WIDTHS]
    for error, recorded in zip(found, (0.128, 0.062, 0.025, 0.021, 0.012), strict=True):
        assert recorded / 2 < error < 2 * recorded
    slope = np.polyfit(np.log(WIDTHS), np.log(found), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)
    without = [rms("base_error", m, "none") for m in WIDTHS]
    np.testing.assert_allclose(found, without, rtol=0.05)


@pytest.mark.slow
def test_the_composite_part_and_the_network_follow_up_to_a_quarter_of_a_million_neurons():
    # RN-72: alpha G .020 to .0028; the network .283, .226, .137, .112, .049, slope -.32; norms of
    # W* 3.6 to 3.9, of V* about 1. Two sets of draws of ours: .031 and .053 to .0022 for another
    # composite, whose cubic term has heavy tails at m = 1000; .30, .22, .11, .07, .06.
    composite = [rms("composite_error", m, "none") for m in WIDTHS]
    assert 0.01 < composite[0] < 0.08
    assert 0.0014 < composite[-1] < 0.0056
    full = [rms("error", m, "none") for m in WIDTHS]
    for error, recorded in zip(full, (0.283, 0.226, 0.137, 0.112, 0.049), strict=True):
        assert recorded / 1.7 < error < 1.7 * recorded
    slope = np.polyfit(np.log(WIDTHS), np.log(full), 1)[0]
    assert slope == pytest.approx(-0.32, abs=0.1)
    for fit in (*fits(64_000, "none"), *fits(256_000, "none")):
        assert 3.6 < fit.norms[0] < 4.1
        assert 0.9 < fit.norms[1] < 1.2


@pytest.mark.slow
def test_a_start_between_has_a_smaller_output_and_flips_a_tenth():
    # RN-72, m = 64000, sigma_w = m^-.35, four draws: error .088, initial output of the first layer
    # .025, 10 % flipped. Ours: .068 to .080, .018 to .031, 9.9 %.
    options = {"power": -0.35, "draws": 4}
    assert rms("error", 64_000, "none", **options) == pytest.approx(0.088, rel=0.35)
    second = 64_000**0.1 / math.sqrt(64_000)  # what the second layer adds
    found = rms("start", 64_000, "none", **options)
    assert 0.65 * 0.025 < found < 1.35 * math.hypot(0.025, second)
    assert rms("flipped", 64_000, "none", **options) == pytest.approx(0.10, rel=0.05)


def regret(goal, seed, power=-0.45, m=64_000):
    """E|Err|^2, E|H - out|^2 and the least slack of RN-58 at (.7 W*, .5 V*), y = H, 40 inputs."""
    spreads = {"sigma_w": m**power, "sigma_v": 2.0}
    params, x = start(m, seed, *spreads.values()), points(40, seed=seed + 1)
    star = resnet_weights(params, goal, **spreads).dparams
    W0, W = (np.c_[np.asarray(p.W), np.asarray(p.b1)] for p in (params, star))
    V0, V = (np.c_[np.asarray(p.V), np.asarray(p.b2)] for p in (params, star))
    A, ones = np.asarray(params.A), np.ones((len(x), 1))
    xa = np.concatenate([x, ones], axis=1)
    first = xa @ (W0 + 0.7 * W).T
    out1 = np.maximum(first, 0) @ A.T
    z = np.concatenate([out1, ones], axis=1)
    second = z @ (V0 + 0.5 * V).T
    out, H = out1 + np.maximum(second, 0) @ A.T, goal(x)
    # RN-27 towards (W*, V*): f = M t with t = A D W' xa, and g = A D V' z.
    t = ((first >= 0) * (xa @ (0.3 * W).T)) @ A.T
    f = t + ((second >= 0) * (t @ (V0 + 0.5 * V)[:, :K].T)) @ A.T
    towards = f + ((second >= 0) * (z @ (0.5 * V).T)) @ A.T
    gap, err = H - out, towards - (H - out)
    progress = np.sum(gap * towards, axis=1)  # <grad, (W - W*, V - V*)>, as in Fact C.4
    slack = progress - np.sum(gap**2, axis=1) / 2 + 2 * np.sum(err**2, axis=1)
    return np.mean(np.sum(err**2, axis=1)), np.mean(np.sum(gap**2, axis=1)), np.min(slack)


@pytest.mark.slow
def test_the_error_term_of_descent_is_made_by_flipped_signs_and_not_by_alpha():
    # RN-58, m = 64000, sigma_w = m^-.45, sigma_v = 2. On record: E|Err|^2 = .0037, .0030, .0019 and
    # E|H - out|^2 = .040, .015, .0053 for alpha = .4, .2, .1, of an F and a G that are not given.
    # They can hardly be those of RN-72, whose .3 F alone is .09 E|F|^2 = .017 > .0053: four
    # draws of ours give .054 to .061, .043 to .050, .039 to .046 and .089 to .104, .070 to .082,
    # .062 to .073. What holds for both: the slack is positive at every input, both fall with alpha,
    # by far less than alpha^4, that is 256.
    rows = np.array([regret(concept(alpha), 0) for alpha in (0.4, 0.2, 0.1)])
    assert np.all(rows[:, 2] > 0)
    np.testing.assert_allclose(rows[:, 0], [0.057, 0.047, 0.042], rtol=0.2)
    np.testing.assert_allclose(rows[:, 1], [0.097, 0.076, 0.067], rtol=0.2)
    for column in (0, 1):
        assert np.all(np.diff(rows[:, column]) < 0)
        assert rows[0, column] < 3 * rows[2, column]
    # The cause, which the record leaves open: with a larger start fewer signs flip (18 % and 8 %).
    assert regret(concept(0.1), 0, power=-0.35)[0] < rows[2, 0] / 3


@pytest.mark.slow
def test_a_smaller_signal_leaves_an_error_term_as_small_as_on_record():
    # RN-58 with F a third as large, which flips 7 % of the signs: E|Err|^2 is .0017, .0010, .0008,
    # of the order on record (.0037, .0030, .0019), and E|H - out|^2 at alpha = .1 is .0033 to .0050
    # in two draws (.0053).
    rows = np.array([regret(concept(alpha, size=0.3), 0) for alpha in (0.4, 0.2, 0.1)])
    assert np.all(rows[:, 2] > 0)
    recorded = np.array([0.0037, 0.0030, 0.0019])
    assert np.all((recorded / 5 < rows[:, 0]) & (rows[:, 0] < recorded))
    assert rows[2, 1] == pytest.approx(0.0042, rel=0.35)
