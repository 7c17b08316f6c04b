# SPDX-License-Identifier: Apache-2.0
"""The table of LG-42: two-layer weights at four widths, for both functions h."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayerParams
from unlazy.papers.allenzhu_li_liang2019 import (
    TwoLayerConcept,
    indicator_function,
    two_layer_weights,
)

D, SCALE, STARTS = 5, 0.1, 4
# rms(g - F*), ||W*||_F eps_a sqrt(m), rms of real less pseudo, flips; means over four starts.
RECORDED = {
    "minimum-norm": {
        1000: (0.0574, 4.26, 0.052, 0.083),
        4000: (0.0330, 4.32, 0.021, 0.044),
        16_000: (0.0135, 4.40, 0.0082, 0.023),
        64_000: (0.0076, 4.42, 0.0027, 0.011),
    },
    "paper": {
        1000: (0.454, 27.7, 0.34, 0.099),
        4000: (0.203, 31.6, 0.19, 0.066),
        16_000: (0.107, 33.8, 0.11, 0.043),
        64_000: (0.059, 33.0, 0.048, 0.028),
    },
}


def concept():
    # On record are its functions and rms(F*) = .268 alone: here the output weights that give the
    # recorded norms.
    e, a = np.eye(D), np.array([[0.8, -0.3], [0.2, 0.5]])
    return TwoLayerConcept(a, ["sin", "exp"], e[[0, 1]], e[[2, 3]])


def start(m, seed):
    rng = np.random.default_rng([m, seed])
    W, b = rng.standard_normal((m, D)) / m**0.5, rng.standard_normal(m) / m**0.5
    a = SCALE * rng.standard_normal((2, m))
    with jax.enable_x64(True):
        return BiasedTwoLayerParams(jnp.asarray(W), jnp.asarray(b), jnp.asarray(a))


def measured(m, seed, indicators, x):
    params = start(m, seed)
    fit = two_layer_weights(params, concept(), x, output_scale=SCALE, indicators=indicators)
    W, b, a = (np.asarray(part) for part in (params.W, params.b, params.a))
    before, after = x @ W.T + b, x @ (W + np.asarray(fit.dW)).T + b
    real, initial = np.maximum(after, 0) @ a.T, np.maximum(before, 0) @ a.T
    return (
        fit.rms_error,
        fit.norm_frobenius * SCALE * math.sqrt(m),
        np.sqrt(np.mean((real - initial - fit.outputs) ** 2)),
        np.mean((before >= 0) != (after >= 0)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["minimum-norm", "paper"])
def test_every_width_has_the_recorded_errors_norms_and_flips(method):
    # Over eight starts of our own an error varied by a third (least norm) or by half, hence a mean
    # of four by a quarter; the record's is no better. Norms and flips vary by a few per cent, but
    # for heavy tails of the paper's h, and their concept is not quite ours.
    x = np.random.default_rng(0).standard_normal((100, D))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    hs = [indicator_function(name, degree=9, method=method) for name in ("sin", "exp")]
    for m, recorded in RECORDED[method].items():
        found = np.mean([measured(m, seed, hs, x) for seed in range(STARTS)], axis=0)
        ratio = found / np.array(recorded)
        assert 1 / 1.75 < ratio[0] < 1.75
        assert ratio[1] == pytest.approx(1, abs=0.1 if method == "minimum-norm" else 0.3)
        assert 1 / 1.75 < ratio[2] < 1.75
        assert ratio[3] == pytest.approx(1, abs=0.25)
