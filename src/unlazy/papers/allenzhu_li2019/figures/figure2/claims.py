# SPDX-License-Identifier: Apache-2.0
"""The claims of Figure 2: what the paper says of it, and what was recorded of it."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.allenzhu_li2019.figures.figure2.config import KERNELS, TANGENT, Config
from unlazy.papers.allenzhu_li2019.figures.figure2.curves import Curves
from unlazy.papers.allenzhu_li2019.figures.linear_models import LIMITS

_IDS = {"all": "RN-61", "hidden": "RN-62"}
_KNOWN = ("2layer(last)", "2layer(NTK)", "3layer(last)", "3layer(NTK)")


class _Recorded(NamedTuple):
    """Test errors on record: of networks by seed, of `_KNOWN` kernels of infinite width."""

    id: str
    inputs: int
    n: int
    mode: str
    width: int
    networks: dict[str, tuple[float, ...]]
    limits: tuple[float, ...]


_ALL = {"3layer(all)": (0.357, 0.685, 0.556), "2layer(all)": (1.39, 1.40, 1.26)}
_HIDDEN = {"3layer(hidden)": (0.306,), "2layer(hidden)": (0.897,)}
# Measured before this library with another generator, hence other samples, and other grids. The
# tiny errors of 3resnet are not among them: they are claimed to be small, not to be so small.
_RECORDED = (
    _Recorded("RN-64", 16, 400, "all", 50, _ALL, (1.19, 1.31, 1.39, 1.89)),
    _Recorded("RN-65", 16, 800, "hidden", 100, _HIDDEN, (0.89, 0.92)),
    _Recorded("RN-63", 30, 500, "all", 200, {}, (5.08, 6.35, 6.47, 8.62)),
    _Recorded("RN-63", 30, 1000, "hidden", 100, {}, (2.43, 2.99, 3.08, 4.73)),
)


def claims(config: Config, results: Results) -> list[Claim]:
    listed: list[Claim] = []
    for panel in config.panels:
        curves = Curves(config, panel, results)
        number = _IDS[panel.mode]
        # Where all lanes diverged, an error is inf and its ratio may be nan, which refutes.
        with np.errstate(invalid="ignore"):
            if config.orders:
                listed += [*_learners(number, curves), *_kernels(number, curves)]
                listed += _selection(number, curves)
            listed += [*_certificate(number, curves), *_recorded(curves)]
    return with_record(listed, config.refuted)


def _learners(number: str, curves: Curves) -> Iterator[Claim]:
    for method in curves.panel.networks:
        errors = curves.along(method)
        widths = curves.widths(method)
        shown = "; ".join(f"m = {m}: {_shown(e)}" for m, e in zip(widths, errors, strict=True))
        note = f"by width and seed, in k alpha^2: {shown}"
        if method.startswith("3resnet"):
            worst = errors.max(axis=1)
            yield Claim(
                f"{number}/3resnet",
                f"{method} learns the composite: its worst seed over k alpha^2, at its best width "
                f"({widths[int(np.argmin(worst))]})",
                float(np.min(worst)),
                "<",
                curves.config.margin,
                note=note,
            )
            yield Claim(
                f"{number}/3resnet-widths",
                f"{method} goes below k alpha^2 at every width: largest mean over seeds",
                float(np.max(errors.mean(axis=1))),
                "<",
                1.0,
            )
            continue
        yield Claim(
            f"{number}/{method.partition('(')[0]}",
            f"{method} does not learn the composite: smallest error over k alpha^2, of all widths "
            "and seeds",
            float(np.min(errors)),
            ">",
            1.0,
            note=note,
        )


def _kernels(number: str, curves: Curves) -> Iterator[Claim]:
    ways = {
        "ridge": ("solved exactly", {m: curves.exact(m) for m in KERNELS}),
        "averaged": (
            "averaged over the outputs and solved exactly",
            {m: curves.along(m, solver="ridge") for m in TANGENT},
        ),
    }
    if curves.panel.sgd_kernels:
        ways = {"sgd": ("trained by SGD", {m: curves.along(m) for m in KERNELS})} | ways
    for way, (said, errors) in ways.items():
        least = min(errors, key=lambda m: float(np.min(errors[m])))
        yield Claim(
            f"{number}/kernels-{way}",
            f"No kernel of finite width {said} goes below k alpha^2: smallest error over it",
            float(np.min(errors[least])),
            ">",
            1.0,
            note="means at the largest width: "
            + ", ".join(f"{m} {np.mean(e[-1]):.3g}" for m, e in errors.items()),
        )
    limits = curves.limits()
    yield Claim(
        f"{number}/kernels-limit",
        "No kernel of infinite width, solved exactly, goes below k alpha^2: smallest error over it",
        float(min(np.min(errors) for errors in limits.values())),
        ">",
        1.0,
        note=", ".join(f"{name} {np.mean(errors):.3g}" for name, errors in limits.items()),
    )


def _certificate(number: str, curves: Curves) -> Iterator[Claim]:
    target, task = curves.panel.task.target(), curves.panel.task
    average = task.n / math.comb(task.inputs, len(target.parity))
    yield Claim(
        f"{number}/certificate",
        "No dot-product kernel on these samples, whatever its weights, is below (1 - P') k alpha^2 "
        "with P' about N / C(d, 8): its ratio to that, mean over seeds",
        float(np.mean(curves.captured)) / average,
        "in",
        (0.5, 2.0),
        note=f"P' = {_shown(curves.captured)}; N / C(d, 8) = {average:.3g}",
    )
    margins = [curves.limit(method) / (1 - curves.captured) for method in LIMITS]
    # On a finite test set an error is known to a few per cent only.
    yield Claim(
        f"{number}/certified",
        "The kernels of infinite width are above the certificate: smallest ratio",
        float(np.min(margins)),
        ">=",
        0.95,
    )


def _selection(number: str, curves: Curves) -> Iterator[Claim]:
    losses = {}
    for method in curves.panel.networks:
        honest = curves.along(method, by="validation").mean(axis=1)
        losses[method] = float(np.max(honest / curves.along(method).mean(axis=1)))
    yield Claim(
        f"{number}/selection",
        "Tuned on a validation set, no network is more than a tenth worse than tuned on the test "
        "set: largest ratio of mean test errors",
        max(losses.values()),
        "<=",
        1.1,
        note=f"{curves.extended()} cells had an optimum on the edge of their grid, and extended it",
    )


def _recorded(curves: Curves) -> Iterator[Claim]:
    task = curves.panel.task
    for record in _RECORDED:
        if (record.inputs, record.n, record.mode) != (task.inputs, task.n, curves.panel.mode):
            continue
        for method, known in record.networks.items():
            if record.width in curves.panel.widths:
                yield _near(
                    f"{record.id}/{method}",
                    f"The test error of {method} at m = {record.width} is on record, mean over "
                    "seeds: ours over it",
                    float(np.mean(curves.at(method, record.width))) * curves.unit,
                    float(np.mean(known)),
                    (0.5, 1.5),
                )
        for method, known in zip(_KNOWN, record.limits, strict=False):
            yield _near(
                f"{record.id}/{method}-limit-{record.n}",
                f"The test error of the kernel {method} of infinite width is on record: ours over "
                "it",
                float(np.mean(curves.limit(method))) * curves.unit,
                known,
                (0.85, 1.15),
            )


def _near(id: str, sentence: str, ours: float, known: float, band: tuple[float, float]) -> Claim:
    note = f"recorded {known:.3g}; ours {ours:.3g}"
    return Claim(id, sentence, ours / known, "in", band, note=note)


def _shown(values: np.ndarray) -> str:
    return " / ".join(f"{value:.3g}" for value in values)
