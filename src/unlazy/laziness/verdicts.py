# SPDX-License-Identifier: Apache-2.0
r"""How lazy, and how good: two sentences, kept apart, with their reasons.

How lazy is read off the Taylor shares on the data of the report, since laziness is a property of
the function: the error of order k is $e_k = \|D - T_1 - \dots - T_k\| / \|D\|$.

| verdict | when |
|---|---|
| nothing moved | D = 0 |
| exactly lazy | $e_1 \le 10^{-4}$: the function is linear in what moved |
| lazy | $e_1 \le 0.1$ |
| linear with a quadratic correction | $e_2 \le 0.1$, and order 1 carries more than half |
| linear with a correction up to order k | the same with k > 2, the first with $e_k \le 0.1$ |
| order k | k is the first order with $e_k \le 0.1$, and order 1 carries less than half |
| mostly linear | no order does, but $e_1 \le 1/3$ |
| rich | all else |

Movement, kernel and ReLUs are reasons: each may be large while the function hardly notices.
"""

import math
from typing import NamedTuple

import equinox as eqx
import numpy as np

from unlazy.laziness.measurements.flips import Flips
from unlazy.laziness.measurements.kernel_drift import KernelDrift
from unlazy.laziness.measurements.movement import Movement
from unlazy.laziness.measurements.taylor_shares import CLOSE, TaylorShares
from unlazy.laziness.measurements.twins import KERNEL_START, LINEAR, NETWORK, TEST, Score, Twins

EXACT = 1e-4  # what float32 leaves of an error of order 1 that is zero
MOSTLY = 1 / 3
AS_GOOD = 0.01  # of accuracy, or two standard errors of the kernel's where that is more


class Verdict(eqx.Module):
    """The two sentences of a report."""

    kind: str
    order: int | None  # the first order of the expansion that describes the change; None: none
    lazy: str  # how lazy, in a sentence with its reasons
    good: str  # how good, in a sentence; empty without labels


class Remarks(NamedTuple):
    """What a reader of the verdict must know of the two points."""

    others_moved: bool  # whether parameters that do not count moved too
    fresh: bool  # whether batch normalisation at the start has seen no data

    def in_words(self) -> str:
        """The sentences to add to the verdict."""
        text = ""
        if self.others_moved:
            text += (
                " Parameters that `trained` leaves out moved too: all of this is about the model "
                "in which they stay at their start."
            )
        if self.fresh:
            text += (
                " Mind the batch normalisation: its running statistics at the start are those of "
                "no data, so that the start is not the function that was trained. Run the model on "
                "data in training mode before the start is copied."
            )
        return text


def is_fresh(start: dict[str, np.ndarray], end: dict[str, np.ndarray]) -> bool:
    """Whether all running statistics are 0 or 1 at the start, as they are made, and later not."""
    moved = any(not np.array_equal(start[path], end[path]) for path in start)
    return moved and all(bool(np.all(v == 0) or np.all(v == 1)) for v in start.values())


def verdict(
    shares: TaylorShares,
    movement: Movement,
    drift: KernelDrift | None,
    flips: Flips | None,
    twins: Twins | None,
    optimizer: str,
    remarks: Remarks,
) -> Verdict:
    """Judge a training by its measurements.

    Args:
        shares: of the Taylor terms, which decide how lazy.
        movement: a reason, as are `drift` and `flips`.
        drift: of the kernel.
        flips: of the ReLUs.
        twins: the scores, which decide how good.
        optimizer: what the verdict is about.
        remarks: on the two points.
    """
    kind, order = judged(shares)
    reasons = _reasons(shares, movement, drift, flips)
    about = f" This is about the training with {optimizer} between the two points given."
    head = f"of {kind}" if kind.startswith("order") else kind
    text = f"{about}{_of_statistics(shares)}{remarks.in_words()}"
    lazy = f"{head[0].upper()}{head[1:]}: {reasons}.{text}"
    return Verdict(kind, order, lazy, good_in_words(twins))


def judged(shares: TaylorShares) -> tuple[str, int | None]:
    """The kind of a training, and the order of the expansion that describes it."""
    if shares.change == 0:
        return "nothing moved", 0
    errors = shares.errors
    if errors[1] <= EXACT:
        return "exactly lazy", 1
    if errors[1] <= CLOSE:
        return "lazy", 1
    order = next((k for k, e in enumerate(errors) if k > 1 and e <= CLOSE), None)
    if order is not None:
        corrected = "quadratic correction" if order == 2 else f"correction up to order {order}"
        is_linear = shares.shares[0] > 0.5
        return (f"linear with a {corrected}" if is_linear else f"order {order}"), order
    return ("mostly linear" if errors[1] <= MOSTLY else "rich"), None


def _reasons(
    shares: TaylorShares, movement: Movement, drift: KernelDrift | None, flips: Flips | None
) -> str:
    if shares.change == 0:
        return f"the outputs are the same, and the parameters moved by {movement.relative:.2g}"
    errors = ", ".join(f"{error:.2g} at order {k}" for k, error in enumerate(shares.errors) if k)
    found = [
        f"the Taylor models of the start miss the change of the outputs by {errors}",
        f"the parameters moved by {_share(movement.relative)} their norm",
    ]
    if drift is not None:
        found.append(f"the centred kernel turned by 1 - cosine = {drift.whole.centred:.2g}")
    if flips is not None:
        found.append(f"{100 * flips.share:.2g}% of the ReLUs switched")
    return "; ".join(found)


def _of_statistics(shares: TaylorShares) -> str:
    """A sentence where much of the change is that of averages, which no gradient has made."""
    if not shares.statistics_size > MOSTLY:  # nan for a model without statistics
        return ""
    return (
        " Mind the running statistics of batch normalisation: they alone, at the parameters of the "
        f"start, change the outputs by {_share(shares.statistics_size)} the whole change. Give "
        "the start the statistics of the end to judge the training of the parameters by itself."
    )


def good_in_words(twins: Twins | None) -> str:
    """How good the network is beside its twins; empty without labels."""
    if twins is None:
        return ""
    network, linear, kernel = (twins.find(name) for name in (NETWORK, LINEAR, KERNEL_START))
    if network is None or linear is None:
        return ""
    if math.isnan(network.accuracy):
        return _good_at_quantities(network, linear, kernel, twins.fitted_to)
    text = (
        f"The network is right on {network.accuracy:.1%} of {network.data}, its linear model on "
        f"{linear.accuracy:.1%}"
    )
    if kernel is None:
        return f"{text}."
    text += (
        f"; regression with the kernel of the start, from {twins.fitted_to}, on "
        f"{kernel.accuracy:.1%} of {kernel.data}"
    )
    if network.data != TEST:
        return f"{text}, which it was not fitted to. Give test=(x, y) to compare the two fairly."
    return f"{text}. {_kernel_in_place(network, kernel, twins)}"


def _kernel_in_place(network: Score, kernel: Score, twins: Twins) -> str:
    """Whether a kernel would do better, as well or worse, beyond chance."""
    chance = math.sqrt(kernel.accuracy * (1 - kernel.accuracy) / kernel.rows)
    margin, gain = max(AS_GOOD, 2 * chance), kernel.accuracy - network.accuracy
    if gain > margin:
        found = "would do better"
    else:
        found = "would do as well" if gain >= -margin else "would not do as well"
    is_all = twins.fitted_to.startswith("all")
    who = "A kernel" if is_all else f"A kernel that is fitted to {twins.fitted_to} alone"
    return f"{who} {found} here."


def _good_at_quantities(network, linear, kernel, fitted_to: str) -> str:
    text = f"The loss of the network is {network.loss:.3g} on {network.data}, of its linear model "
    text += f"{linear.loss:.3g}"
    if kernel is not None and not math.isnan(kernel.loss):
        text += (
            f", of regression with the kernel of the start, from {fitted_to}, {kernel.loss:.3g} on "
            f"{kernel.data}"
        )
    return f"{text}."


def _share(share: float) -> str:
    return f"{share:.2g} times" if share >= 1 else f"{100 * share:.2g}% of"
