# SPDX-License-Identifier: Apache-2.0
"""The claims of the figure of Theorem 1."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64

from unlazy.experiments import Claim, Results, largest, with_record
from unlazy.papers.allenzhu_li2019.figures.theorem1.config import Config, Training

_LEAST_STEPS = 0.05  # share of the run from which on the risk follows a power of the steps


def curve(results: Results, one: Training, column: str) -> Float64[np.ndarray, " t"]:
    """A column of the table of a training."""
    found = next(result.table for cell, result in results.items() if cell.config == one)
    return np.asarray(found[column], np.float64)


def late_risk(results: Results, one: Training) -> float:
    """The mean risk over the second half of the steps: the theorem bounds a mean over steps."""
    risk = curve(results, one, "risk")
    return float(np.mean(risk[len(risk) // 2 :]))


def sample_exponent(results: Results, one: Training) -> float:
    r"""The s in $N \sim \delta^{-s}$, from the risks along one training."""
    step, risk = curve(results, one, "step"), curve(results, one, "risk")
    late = step >= _LEAST_STEPS * step[-1]
    if not np.all(np.isfinite(risk)) or np.any(risk <= 0):
        return np.nan
    slope = np.polyfit(np.log(step[late]), np.log(risk[late]), 1)[0]
    return float(-1 / slope) if slope < 0 else np.inf


def claims(config: Config, results: Results) -> list[Claim]:
    listed = [*_risks(config, results), *_layers(config, results)]
    return with_record(listed, config.refuted)


def _risks(config: Config, results: Results) -> Iterator[Claim]:
    late = [late_risk(results, one) for one in config.by_alpha]
    shares = [risk / one.floor for risk, one in zip(late, config.by_alpha, strict=True)]
    alphas = ", ".join(f"{one.alpha:g}" for one in config.by_alpha)
    said = f"SGD reaches a risk of k alpha^4 for alpha = {alphas}: largest share of it"
    note = "in units of k alpha^4: " + ", ".join(f"{share:.3g}" for share in shares)
    yield Claim("RN-28/alpha", said, largest(shares), "<=", 1.0, note=note)
    found = [sample_exponent(results, one) for one in config.by_alpha]
    said = "Samples grow no faster than the inverse square of the risk: largest exponent"
    note = "per alpha: " + ", ".join(f"{value:.3g}" for value in found)
    yield Claim("RN-28/samples", said, largest(found), "<=", 2.0, note=note)
    noisy = [late_risk(results, one) / (one.opt + one.floor) for one in config.by_noise]
    sizes = ", ".join(f"{one.opt:.3g}" for one in config.by_noise)
    said = f"With labels of OPT = {sizes} the risk against the target is at most OPT + k alpha^4: "
    said += "largest share of it"
    note = "per OPT: " + ", ".join(f"{share:.3g}" for share in noisy)
    yield Claim("RN-28/opt", said, largest(noisy), "<=", 1.0, note=note)


def _layers(config: Config, results: Results) -> Iterator[Claim]:
    one = config.layer_wise
    jointly = next(other for other in config.by_alpha if other.alpha == one.alpha)
    unit = one.outputs * one.alpha**2
    ends = [float(curve(results, other, "risk")[-1]) / unit for other in (one, jointly)]
    said = "Trained one after the other the layers do not learn the composite: risk / k alpha^2"
    yield Claim("RN-31/layer-wise", said, ends[0], ">=", 0.5, note=f"jointly: {ends[1]:.3g}")
