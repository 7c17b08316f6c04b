# SPDX-License-Identifier: Apache-2.0
r"""How much of the change of a function each order of its Taylor expansion carries."""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float

from unlazy.laziness.measurements.sections import Cell, Section


class TaylorShares(eqx.Module):
    r"""The change D = f(end) - f(start) of the outputs, split into Taylor terms at the start.

    The share of order k is $\langle T_k, D\rangle / \|D\|^2$: shares and that of the remainder add
    up to 1. The error of order k is $\|D - T_1 - \dots - T_k\| / \|D\|$.
    """

    change: float  # root mean square of D, per output
    shares: tuple[float, ...]  # of the orders 1, 2, ...
    sizes: tuple[float, ...]  # norm(T_k) / norm(D)
    errors: tuple[float, ...]  # of the orders 0, 1, 2, ...: the first is 1

    @property
    def remainder(self) -> float:
        """The share of the change that no order carries."""
        return 1 - sum(self.shares)

    def section(self) -> Section:
        """The measurement as people read it."""
        rows: list[tuple[Cell, ...]] = [
            (f"order {k}", share, size, self.errors[k])
            for k, (share, size) in enumerate(zip(self.shares, self.sizes, strict=True), start=1)
        ]
        rows.append(("remainder", self.remainder, self.errors[-1], None))
        return Section(
            "Taylor shares",
            "which order of the expansion at the start carries the change of the function?",
            "D = f(end) - f(start) = T1 + T2 + ... + remainder; share <Tk, D>/norm(D)^2; "
            "error norm(D - T1 - ... - Tk)/norm(D)",
            ("term", "share", "size", "error with it"),
            tuple(rows),
        )


def taylor_shares(
    terms: Float[np.ndarray, "orders n c"], end: Float[np.ndarray, "n c"]
) -> TaylorShares:
    """Split the change of the outputs.

    Args:
        terms: the Taylor terms 0, 1, 2, ... at the start.
        end: the outputs at the end.
    """
    T = np.asarray(terms, np.float64)
    D = np.asarray(end, np.float64) - T[0]
    square = float(np.sum(D**2))
    change = math.sqrt(square / D.size)
    if square == 0:
        nothing = (math.nan,) * (len(T) - 1)
        return TaylorShares(0.0, nothing, nothing, (math.nan, *nothing))
    left = D - np.concatenate([np.zeros_like(T[:1]), np.cumsum(T[1:], axis=0)])
    return TaylorShares(
        change,
        tuple(float(np.sum(term * D)) / square for term in T[1:]),
        tuple(_size(term) / math.sqrt(square) for term in T[1:]),
        tuple(_size(rest) / math.sqrt(square) for rest in left),
    )


def _size(array: np.ndarray) -> float:
    return float(np.linalg.norm(array))
