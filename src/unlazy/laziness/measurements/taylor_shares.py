# SPDX-License-Identifier: Apache-2.0
r"""How much of the change of a function each order of its Taylor expansion carries."""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float

from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.panels import panel
from unlazy.laziness.measurements.sections import Cell, Section

CLOSE = 0.1
"""A Taylor model with an error below this says all that matters of a function."""


class TaylorShares(eqx.Module):
    r"""The change D = f(end) - f(start) of the outputs, split into Taylor terms at the start.

    The share of order k is $\langle T_k, D\rangle / \|D\|^2$: shares and that of the remainder add
    up to 1. The error of order k is $\|D - T_1 - \dots - T_k\| / \|D\|$.
    """

    change: float  # root mean square of D, per output
    shares: tuple[float, ...]  # of the orders 1, 2, ...
    sizes: tuple[float, ...]  # norm(T_k) / norm(D)
    errors: tuple[float, ...]  # of the orders 0, 1, 2, ...: the first is 1
    # Of the change S of the outputs that the statistics make alone; nan for a model without any.
    statistics_share: float = math.nan  # <S, D> / norm(D)^2
    statistics_size: float = math.nan  # norm(S) / norm(D)

    @property
    def remainder(self) -> float:
        """The share of the change that no order carries."""
        return 1 - sum(self.shares)

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the change that each order carries, and what is left.

        The bars add up to 1; one is negative where a term goes against the change.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        values = [*self.shares, self.remainder]
        names = [*(f"order {k + 1}" for k in range(len(self.shares))), "remainder"]
        with panel(ax) as ax:
            colors = [COLORS[0]] * len(self.shares) + ["#bbbbbb"]
            bars = ax.bar(names, values, color=colors)
            ax.bar_label(bars, [f"{value:.2g}" for value in values], fontsize=8, padding=2)
            ax.axhline(0, color="black", lw=0.6, ls="-")
            ax.margins(y=0.15)
            ax.grid(visible=False, axis="x")
            ax.set(xlabel="Taylor term at the start", ylabel="share of the change")
            ax.set_title("what carries the change of the outputs")
        return ax

    @entry
    def plot_errors(self, ax: Axes | None = None) -> Axes:
        """Draw what the Taylor model of each order misses of the change of the outputs.

        Args:
            ax: where to draw; None for a new figure, which is `plot_errors().figure`.
        """
        errors = np.array(self.errors)
        orders = np.arange(len(errors))
        with panel(ax) as ax:
            ax.axhline(CLOSE, color="#888888", ls=":", lw=1)
            told = f"lazy: below {CLOSE:g} at order 1"
            ax.text(len(errors) - 1, CLOSE, told, ha="right", va="bottom", fontsize=8)
            ax.plot(orders, np.maximum(errors, 1e-8), color=COLORS[0], marker="o", ls="-")
            ax.set(yscale="log", xlabel="order of the Taylor model")
            ax.set_xticks(orders)
            ax.set(ylabel="error / change of the outputs", title="what the Taylor model misses")
        return ax

    def section(self) -> Section:
        """The measurement as people read it."""
        rows: list[tuple[Cell, ...]] = [
            (f"order {k}", share, size, self.errors[k])
            for k, (share, size) in enumerate(zip(self.shares, self.sizes, strict=True), start=1)
        ]
        rows.append(("remainder", self.remainder, self.errors[-1], None))
        alone = (
            f"Running statistics of the end at the parameters of the start: they alone change the "
            f"outputs by S, with share <S, D>/norm(D)^2 = {self.statistics_share:.3g} and size "
            f"norm(S)/norm(D) = {self.statistics_size:.3g}."
        )
        return Section(
            "Taylor shares",
            "which order of the expansion at the start carries the change of the function?",
            "D = f(end) - f(start) = T1 + T2 + ... + remainder; share <Tk, D>/norm(D)^2; "
            "error norm(D - T1 - ... - Tk)/norm(D)",
            ("term", "share", "size", "error with it"),
            tuple(rows),
            () if math.isnan(self.statistics_share) else (alone,),
        )


def taylor_shares(
    terms: Float[np.ndarray, "orders n c"],
    end: Float[np.ndarray, "n c"],
    statistics: Float[np.ndarray, "n c"] | None = None,
) -> TaylorShares:
    """Split the change of the outputs.

    Args:
        terms: the Taylor terms 0, 1, 2, ... at the start.
        end: the outputs at the end.
        statistics: how the running statistics of the end change the outputs at the start; None
            for a model without any.
    """
    T = np.asarray(terms, np.float64)
    D = np.asarray(end, np.float64) - T[0]
    square = float(np.sum(D**2))
    change = math.sqrt(square / D.size)
    if square == 0:
        nothing = (math.nan,) * (len(T) - 1)
        return TaylorShares(0.0, nothing, nothing, (math.nan, *nothing))
    alone = (math.nan, math.nan)
    if statistics is not None:
        S = np.asarray(statistics, np.float64)
        alone = float(np.sum(S * D)) / square, _size(S) / math.sqrt(square)
    left = D - np.concatenate([np.zeros_like(T[:1]), np.cumsum(T[1:], axis=0)])
    return TaylorShares(
        change,
        tuple(float(np.sum(term * D)) / square for term in T[1:]),
        tuple(_size(term) / math.sqrt(square) for term in T[1:]),
        tuple(_size(rest) / math.sqrt(square) for rest in left),
        *alone,
    )


def _size(array: np.ndarray) -> float:
    return float(np.linalg.norm(array))
