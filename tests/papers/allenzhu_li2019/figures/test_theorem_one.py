# SPDX-License-Identifier: Apache-2.0
"""The figure of Theorem 1: its distribution, its exponent, and claims of known curves."""

import numpy as np
import pytest

from unlazy.data.parities import hard_parities
from unlazy.experiments import CellResult
from unlazy.papers import get
from unlazy.papers.allenzhu_li2019.figures.theorem1.claims import claims, sample_exponent
from unlazy.papers.allenzhu_li2019.figures.theorem1.config import Config, Training, cells
from unlazy.papers.allenzhu_li2019.figures.theorem1.run import _distribution


@pytest.mark.parametrize(("d", "k", "noise"), [(4, 2, 0.7), (5, 3, 0.0)])
def test_noise_adds_twice_opt_to_the_risk_of_any_predictor(d, k, noise):
    one = Training(0.4, 100, noise=noise, inputs=d, outputs=k)
    x, y = (np.asarray(part, np.float64) for part in _distribution(one))
    assert x.shape == (2 ** (d + k), d)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-6)
    H = hard_parities(range(k), alpha=0.4, scale=d**-0.5)(x)
    rng = np.random.default_rng(d)
    guess = np.tanh(x @ rng.standard_normal((d, k)))  # a function of x alone
    with_noise, without = (np.mean(np.sum((label - guess) ** 2, axis=1)) for label in (y, H))
    assert with_noise == pytest.approx(without + 2 * one.opt, rel=1e-6)
    assert one.opt == pytest.approx(np.mean(np.sum((y - H) ** 2, axis=1)) / 2, abs=1e-7)


def results(config, risk):
    """Tables whose risk is a function of the training and the step."""
    made = {}
    for cell in cells(config):
        one = cell.config
        step = np.arange(one.rows + 1) * (one.steps // one.rows)
        made[cell] = CellResult({"step": step, "risk": risk(one, np.maximum(step, 1.0))})
    return made


@pytest.mark.parametrize("power", [0.5, 0.8, 2.0])
def test_the_exponent_of_samples_is_the_inverse_of_that_of_the_steps(power):
    one = Training(0.5, 10_000)
    found = results(Config((one,), (), one), lambda _, t: 3 * t**-power)
    assert sample_exponent(found, one) == pytest.approx(1 / power)
    rising = results(Config((one,), (), one), lambda _, t: t)
    assert sample_exponent(rising, one) == np.inf


def test_claims_tell_a_risk_of_alpha_to_the_fourth_from_one_of_its_square():
    alphas = (0.5, 0.3)
    plain = tuple(Training(alpha, 1000) for alpha in alphas)
    noisy = (Training(0.3, 1000, noise=0.5),)
    config = Config(plain, noisy, Training(0.3, 1000, layer_wise=True))

    def verdicts(power, share):
        made = results(
            config, lambda one, t: share * (one.outputs * one.alpha**power + one.opt) * t**-0.01
        )
        return {claim.id: claim.verdict for claim in claims(config, made)}

    good, bad = verdicts(4, 0.9), verdicts(2, 1.5)
    assert (good["RN-28/alpha"], bad["RN-28/alpha"]) == ("holds", "refuted")
    assert (good["RN-28/opt"], bad["RN-28/opt"]) == ("holds", "refuted")
    assert good["RN-28/samples"] == "refuted"  # t^-.01 takes 100 in the exponent
    assert (good["RN-31/layer-wise"], bad["RN-31/layer-wise"]) == ("refuted", "holds")


def test_every_preset_records_the_verdict_on_layers_one_after_the_other():
    for preset in get("allenzhu_li2019/theorem1").presets.values():
        assert preset.config.refuted == ("RN-31/layer-wise",)
        one = preset.config.layer_wise
        assert one.steps % (2 * one.rows) == 0
        assert one.alpha in [other.alpha for other in preset.config.by_alpha]
