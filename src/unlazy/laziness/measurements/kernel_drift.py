# SPDX-License-Identifier: Apache-2.0
r"""How far the tangent kernel moved, and how well it fits the labels."""

import itertools
import math

import equinox as eqx
import numpy as np
from jaxtyping import Float

from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.panels import panel
from unlazy.laziness.measurements.bars import draw_bars, short_names
from unlazy.laziness.measurements.sections import Section

_ROUNDING = 1e-12  # of 1 - cosine, where gradients are float32

Kernels = dict[str, np.ndarray]
"""The kernel of each layer by its name."""


class Distance(eqx.Module):
    """How far one kernel is from another."""

    relative: float  # norm(K1 - K0) / norm(K0)
    turned: float  # 1 - cosine of the two
    centred: float  # the same after the mean over the samples is taken out


class KernelDrift(eqx.Module):
    """How far the tangent kernel moved, and what the labels have to do with it."""

    whole: Distance
    layers: dict[str, Distance]
    alignment_start: float  # centred alignment with the labels; nan without labels
    alignment_end: float
    steps: tuple[float, ...]  # of the snapshots between which the velocity is taken
    velocity: tuple[float, ...]  # centred distance between neighbouring snapshots
    sign: Distance | None  # of the kernel of the signs, which Adam's first steps follow

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far the kernel of each layer turned from its start.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        found = [self.whole, *self.layers.values()]
        turned = {"plain": [d.turned for d in found], "centred": [d.centred for d in found]}
        with panel(ax) as ax:
            draw_bars(ax, ["all", *short_names(self.layers)], turned)
            ax.set(xlabel="1 - cosine with the start", title="how far the kernel turned")
        return ax

    def section(self) -> Section:
        """The measurement as people read it."""
        rows = [("all", *_row(self.whole))]
        rows += [(name, *_row(distance)) for name, distance in self.layers.items()]
        if self.sign is not None:
            rows.append(("all, signs of the gradients", *_row(self.sign)))
        notes = []
        if not math.isnan(self.alignment_start):
            notes.append(
                f"Centred alignment with the labels: {self.alignment_start:.3g} at the start, "
                f"{self.alignment_end:.3g} at the end."
            )
        if self.velocity:
            speeds = ", ".join(f"{v:.3g}" for v in self.velocity)
            notes.append(f"Centred distance from snapshot to snapshot: {speeds}.")
        return Section(
            "Kernel drift",
            "did the tangent kernel change?",
            "norm(K1 - K0)/norm(K0); 1 - <K0, K1>/(norm(K0) norm(K1)), plain and with both kernels "
            "centred over the samples",
            ("layer", "relative", "1 - cosine", "1 - cosine, centred"),
            tuple(rows),
            tuple(notes),
        )


def _row(distance: Distance) -> tuple[float, float, float]:
    return distance.relative, distance.turned, distance.centred


def total(kernels: Kernels) -> Float[np.ndarray, "n n"]:
    """The kernel of the model: that of its layers together."""
    return np.sum([np.asarray(K, np.float64) for K in kernels.values()], axis=0)


def first_rows(kernels: Kernels, m: int) -> Kernels:
    """The kernels of the first samples alone."""
    return {name: K[:m, :m] for name, K in kernels.items()}


def distance(K0: Float[np.ndarray, "n n"], K1: Float[np.ndarray, "n n"]) -> Distance:
    r"""How far `K1` is from `K0`, in the norm of Frobenius."""
    K0, K1 = (np.asarray(K, np.float64) for K in (K0, K1))
    size = np.linalg.norm(K0)
    relative = float(np.linalg.norm(K1 - K0) / size) if size > 0 else math.nan
    return Distance(relative, turned(K0, K1), turned(centred(K0), centred(K1)))


def turned(K0: Float[np.ndarray, "n n"], K1: Float[np.ndarray, "n n"]) -> float:
    """1 - cosine of the angle between two kernels; 0 where no more than rounding is left."""
    found = 1 - cosine(K0, K1)
    return 0.0 if found < _ROUNDING else found


def cosine(K0: Float[np.ndarray, "n n"], K1: Float[np.ndarray, "n n"]) -> float:
    """The cosine of the angle between two kernels; nan if one vanishes, 1 at most."""
    sizes = np.linalg.norm(K0) * np.linalg.norm(K1)
    return min(float(np.sum(K0 * K1) / sizes), 1.0) if sizes > 0 else math.nan


def centred(K: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The kernel of features less their mean over the samples."""
    return K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()


def alignment(K: Float[np.ndarray, "n n"], Y: Float[np.ndarray, "n c"]) -> float:
    r"""Centred kernel-target alignment: the cosine of K and YY', both centred."""
    Y = Y - Y.mean(axis=0)
    return cosine(centred(np.asarray(K, np.float64)), Y @ Y.T)


def kernel_drift(
    start: Kernels,
    end: Kernels,
    labels: Float[np.ndarray, "n c"] | None,
    snapshots: list[tuple[int | float, Kernels]] | None = None,
    signs: tuple[Kernels, Kernels] | None = None,
) -> KernelDrift:
    """Compare the kernels at the start and at the end of a training, and on the way."""
    K0, K1 = total(start), total(end)
    steps, on_the_way = [], []
    for step, kernels in snapshots or []:
        steps.append(float(step))
        on_the_way.append(total(kernels))
    path = [K0, *on_the_way, K1] if on_the_way else []
    velocity = [distance(one, two).centred for one, two in itertools.pairwise(path)]
    return KernelDrift(
        whole=distance(K0, K1),
        layers={name: distance(start[name], end[name]) for name in start},
        alignment_start=math.nan if labels is None else alignment(K0, labels),
        alignment_end=math.nan if labels is None else alignment(K1, labels),
        steps=tuple(steps),
        velocity=tuple(velocity),
        sign=None if signs is None else distance(total(signs[0]), total(signs[1])),
    )
