# SPDX-License-Identifier: Apache-2.0
"""How far the parameters of a model moved: whole, layer by layer, neuron by neuron."""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Float64

from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.panels import panel
from unlazy.kernels.empirical.by_layer import layer_of
from unlazy.laziness.measurements.bars import draw_bars, short_names
from unlazy.laziness.measurements.sections import Cell, Section
from unlazy.laziness.subjects.subject import Subject

QUANTILES = (0.1, 0.5, 0.9)


class LayerMovement(eqx.Module):
    """How far one layer moved."""

    name: str
    relative: float  # norm of the change over the norm at the start; inf from a start at zero
    neurons: tuple[float, ...]  # quantiles of the same over neurons; nan without a weight
    spectral: float  # spectral norm of the weight's change over sqrt(fan-out / fan-in)
    spectral_start: float  # the same of the weight at the start


class Movement(eqx.Module):
    """How far the parameters moved between two points of a training."""

    relative: float
    layers: tuple[LayerMovement, ...]

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far each layer moved, in units of its norm at the start.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        names = ["all", *short_names(layer.name for layer in self.layers)]
        values = [self.relative, *(layer.relative for layer in self.layers)]
        with panel(ax) as ax:
            draw_bars(ax, names, {"movement": values})
            ax.set(xlabel="change / norm at the start", title="how far parameters moved")
        return ax

    def section(self) -> Section:
        """The measurement as people read it."""
        rows: list[tuple[Cell, ...]] = [("all", self.relative, *[None] * (len(QUANTILES) + 2))]
        rows += [(layer.name, layer.relative, *layer.neurons, layer.spectral, layer.spectral_start)
                 for layer in self.layers]  # fmt: skip
        return Section(
            "Movement",
            "how far did the parameters move?",
            "norm(end - start) / norm(start); quantiles of the same over the rows of a weight; "
            "spectral norms over sqrt(fan-out/fan-in), which stay of order 1 where features learn",
            (
                "layer",
                "relative",
                *(f"neurons, {q:.0%}" for q in QUANTILES),
                "spectral change",
                "spectral start",
            ),
            tuple(rows),
        )


def movement(subject: Subject, start: Any, end: Any) -> Movement:
    """Compare two points of a training."""
    before, after = subject.weights(start), subject.weights(end)
    changes = {path: after[path].astype(np.float64) - before[path] for path in before}
    layers: dict[str, list[str]] = {}
    for path in before:
        layers.setdefault(layer_of(path), []).append(path)
    found = [_layer(subject, name, paths, before, changes) for name, paths in layers.items()]
    return Movement(_ratio(changes.values(), before.values()), tuple(found))


def _layer(subject: Subject, name: str, paths: list[str], before: Any, changes: Any):
    relative = _ratio([changes[p] for p in paths], [before[p] for p in paths])
    neurons, spectral = (math.nan,) * len(QUANTILES), (math.nan, math.nan)
    for path in paths:
        W, dW = (subject.as_matrix(path, array[path]) for array in (before, changes))
        if W is not None and dW is not None:
            neurons = _quantiles(W, dW)
            scale = math.sqrt(dW.shape[0] / dW.shape[1])
            spectral = _spectral_norm(dW) / scale, _spectral_norm(W) / scale
    return LayerMovement(name, relative, neurons, *spectral)


def _ratio(changes: Any, starts: Any) -> float:
    top, bottom = (math.sqrt(sum(_square(a) for a in arrays)) for arrays in (changes, starts))
    if bottom == 0:
        return math.inf if top > 0 else 0.0
    return top / bottom


def _square(array: np.ndarray) -> float:
    flat = array.astype(np.float64).ravel()
    return float(flat @ flat)


def _quantiles(W: Float[np.ndarray, "out in"], dW: Float[np.ndarray, "out in"]) -> tuple:
    size, change = (np.linalg.norm(matrix.astype(np.float64), axis=1) for matrix in (W, dW))
    ratio = np.divide(change, size, out=np.full(len(size), np.inf), where=size > 0)
    ratio = np.where((size == 0) & (change == 0), 0.0, ratio)
    return tuple(float(q) for q in np.quantile(ratio, QUANTILES, method="lower"))


def _spectral_norm(matrix: Float[np.ndarray, "out in"]) -> float:
    """The largest singular value, by power iterations on the smaller side."""
    M = matrix.astype(np.float64)
    M = M if M.shape[0] >= M.shape[1] else M.T
    v: Float64[np.ndarray, " k"] = np.random.default_rng(0).standard_normal(M.shape[1])
    value = 0.0
    for _ in range(100):
        v = M.T @ (M @ v)
        size = float(np.linalg.norm(v))
        if size == 0:
            return 0.0
        v /= size
        if abs(math.sqrt(size) - value) <= 1e-4 * value:
            return math.sqrt(size)
        value = math.sqrt(size)
    return value
