# SPDX-License-Identifier: Apache-2.0
"""What the paper says of Figure 2, and what was recorded of it, as numbers."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.bai_lee2020.figures.exponents import Exponent, fitted_exponent
from unlazy.papers.nichani2022.figures.figure2.config import (
    LEVEL,
    AuthorsSweep,
    Config,
    Sweep,
)

_RECORDED = {5: 61, 8: 160, 12: 390, 16: 616}  # two seeds
METHODS = {"network": "trained network", "kernel": "its NTK"}


class Losses(NamedTuple):
    """Test losses of one method in one dimension, with a row per seed."""

    ns: Float[np.ndarray, " k"]
    seeds: Float[np.ndarray, "s k"]

    @property
    def middle(self) -> Float[np.ndarray, " k"]:
        """The median over the seeds: one network that diverges must not hide the others."""
        return np.median(self.seeds, axis=0)


class Price(NamedTuple):
    """The samples that a method needs, in the dimensions where it reaches the level."""

    dimensions: Float[np.ndarray, " k"]
    samples: Float[np.ndarray, " k"]  # by the median loss over the seeds
    seeds: Float[np.ndarray, "s k"]

    @property
    def exponent(self) -> Exponent:
        if len(self.dimensions) < 3:
            return Exponent(math.nan, math.nan)
        return fitted_exponent(self.dimensions, self.samples)


def losses(results: Results, sweep: Sweep | AuthorsSweep, method: str) -> Losses:
    table = next(result.table for cell, result in results.items() if cell.config == sweep)
    own = table["method"] == method
    rows = [table["test"][own & (table["seed"] == seed)] for seed in range(sweep.seeds)]
    return Losses(np.unique(table["n"][own]).astype(float), np.stack(rows))


def samples_to(level: float, ns: Float[np.ndarray, " k"], loss: Float[np.ndarray, " k"]) -> float:
    """Where the loss last comes down to the level, by a power law between sizes; nan if never.

    Example:
        >>> samples_to(0.1, np.array([10.0, 40.0, 80.0]), np.array([0.2, 0.05, 0.01]))
        20.0
    """
    above = np.flatnonzero(~(loss <= level))  # nan counts as above
    if not len(above) or above[-1] + 1 == len(ns):
        return math.nan
    i = above[-1]
    share = math.log(loss[i] / level) / math.log(loss[i] / loss[i + 1])
    return round(float(ns[i] * (ns[i + 1] / ns[i]) ** share), 9)


def price(config: Config, results: Results, method: str) -> Price:
    found = [losses(results, sweep, method) for sweep in config.sweeps]
    middle = np.array([samples_to(LEVEL, one.ns, one.middle) for one in found])
    each = np.array([[samples_to(LEVEL, one.ns, row) for row in one.seeds] for one in found])
    reached = np.isfinite(middle)
    dimensions = np.array([float(sweep.inputs) for sweep in config.sweeps])
    return Price(dimensions[reached], middle[reached], each[reached].T)


def claims(config: Config, results: Results) -> list[Claim]:
    network = price(config, results, "network")
    listed = list(_slopes(config, network))
    if isinstance(config.sweeps[0], AuthorsSweep):
        listed += _lines(network)
    else:
        kernel = price(config, results, "kernel")
        listed += [*_recorded(network), *_against_kernel(network, kernel)]
        listed += _advantage(config, results, network, kernel)
    return with_record(listed, config.refuted)


def _slopes(config: Config, network: Price) -> Iterator[Claim]:
    said = "The network comes to a test loss of 0.1 in every dimension: how many it does"
    note = _shown(network)
    yield Claim("NB-52/reached", said, len(network.dimensions), ">=", len(config.sweeps), note=note)
    if len(config.sweeps) > 2:
        said = "The network needs about d^2 samples: exponent"
        note = f"standard error {network.exponent.error:.2f}; {_shown(network)}"
        yield Claim("NB-52/exponent", said, network.exponent.value, "in", (1.6, 2.4), note=note)


def _lines(network: Price) -> Iterator[Claim]:
    """The two lines that the paper draws beside its samples."""
    large = network.dimensions >= 20
    d, n = network.dimensions[large], network.samples[large]
    said = "From d = 20 on the samples are near the paper's line of 6 d^2: largest factor"
    factors = np.maximum(n / (6 * d**2), 6 * d**2 / n)
    factor = float(np.max(factors)) if d.size else math.nan
    yield Claim("NB-52/line", said, factor, "<=", 2.5)
    said = "From d = 20 on the samples are below d^3, fewer and fewer of it: largest share"
    share = float(np.max(n / d**3)) if d.size else math.nan
    yield Claim("NB-52/cube", said, share, "<", 1.0)


def _recorded(network: Price) -> Iterator[Claim]:
    known = [i for i, d in enumerate(network.dimensions) if int(d) in _RECORDED]
    ours = network.samples[known]
    record = np.array([_RECORDED[int(network.dimensions[i])] for i in known])
    if len(known) > 2:
        said = "The samples needed are on record, from two seeds: largest factor"
        measured = float(np.max(np.maximum(ours / record, record / ours)))
        note = f"recorded {', '.join(map(str, record))}"
        yield Claim("NB-52/recorded", said, measured, "<=", 1.4, note=note)


def _against_kernel(network: Price, kernel: Price) -> Iterator[Claim]:
    if len(kernel.dimensions) > 2:
        said = "The NTK needs a larger power of d: its exponent less that of the network"
        measured = kernel.exponent.value - network.exponent.value
        note = f"exponent {kernel.exponent}; {_shown(kernel)}"
        yield Claim("NB-52/kernel-exponent", said, measured, ">", 0.4, note=note)


def _advantage(config: Config, results: Results, network: Price, kernel: Price) -> Iterator[Claim]:
    """The test loss of the kernel at the samples that the network needs, and the ratio of both."""
    at = []
    for sweep in config.sweeps:
        places = np.flatnonzero(network.dimensions == sweep.inputs)
        if len(places):
            found = losses(results, sweep, "kernel")
            spot = np.log(network.samples[places[0]])
            at.append(float(np.interp(spot, np.log(found.ns), found.middle)))
    said = "With the samples that bring the network to 0.1, its NTK stays above: least test loss"
    note = ", ".join(f"{value:.3f}" for value in at)
    yield Claim("NB-52/advantage", said, min(at, default=math.nan), ">", LEVEL, note=note)
    shared = [d for d in kernel.dimensions if d in network.dimensions]
    if shared:
        pairs = [(_at(kernel, d), _at(network, d)) for d in shared]
        yield Claim(
            "NB-52/ratio",
            "The NTK needs several times as many samples: least ratio",
            min(a / b for a, b in pairs),
            ">=",
            2.0,
            note=", ".join(
                f"d = {d:.0f}: {a / b:.1f}" for d, (a, b) in zip(shared, pairs, strict=True)
            ),
        )


def _at(found: Price, d: float) -> float:
    return float(found.samples[found.dimensions == d][0])


def _shown(found: Price) -> str:
    pairs = zip(found.dimensions, found.samples, strict=True)
    return ", ".join(f"{n:.0f} at d = {d:.0f} ({n / d**2:.2f} d^2)" for d, n in pairs)
