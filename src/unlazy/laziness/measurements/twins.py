# SPDX-License-Identifier: Apache-2.0
"""The model beside its twins: Taylor models at its parameters, and regression with its kernels."""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float

from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.panels import panel
from unlazy.labels import leave_one_out_path
from unlazy.laziness.measurements.bars import draw_bars
from unlazy.laziness.measurements.kernel_drift import Kernels, total
from unlazy.laziness.measurements.sections import Section
from unlazy.laziness.measurements.targets import Targets


class Score(eqx.Module):
    """How well a model does on some data."""

    model: str
    data: str
    accuracy: float  # nan for quantities
    loss: float  # mean cross-entropy or half squared error; nan where it says nothing
    rows: int


class Twins(eqx.Module):
    """The scores of the network, of its Taylor models and of kernels in its place."""

    scores: tuple[Score, ...]
    fitted_to: str  # the rows that the kernels learn from
    ridges: dict[str, float]  # chosen by leaving one out, in units of the kernel's mean diagonal

    def find(self, model: str) -> Score | None:
        """The score of the model of that name; on the test data, where there are any."""
        found = [score for score in self.scores if score.model == model]
        return found[-1] if found else None

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the accuracy of every model, or the loss where labels are no classes.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        is_class = not math.isnan(self.scores[0].accuracy)
        what = "accuracy" if is_class else "loss"
        tested = any(score.data == TEST for score in self.scores)
        chosen = [score for score in self.scores if score.data == TEST or not tested]
        with panel(ax) as ax:
            names = [score.model for score in chosen]
            draw_bars(ax, names, {what: [getattr(score, what) for score in chosen]})
            ax.set_title(f"{what} on {TEST}" if tested else f"{what}; kernels: left out")
            ax.set_xlabel(what)
        return ax

    def section(self) -> Section:
        """The measurement as people read it."""
        rows = [(s.model, s.data, s.accuracy, s.loss, s.rows) for s in self.scores]
        return Section(
            "Twins",
            "would a linear model or a kernel do as well?",
            "linear model f(start) + T1 and Taylor model f(start) + T1 + ... + Tk at the end's "
            "parameters; kernel regression by exact leave-one-out, which estimates its test error",
            ("model", "data", "accuracy", "loss", "rows"),
            tuple(rows),
            (f"The kernels learn from {self.fitted_to}.",),
        )


HERE, TEST = "the rows given", "the test data"
NETWORK, START = "network", "network at the start"
LINEAR = "linear model"
KERNEL_START, KERNEL_END = "kernel of the start", "kernel of the end"


def model_scores(
    terms: Float[np.ndarray, "orders n c"],
    end: Float[np.ndarray, "n c"],
    targets: Targets,
    data: str,
) -> list[Score]:
    """The scores of the network and of its Taylor models."""
    models = {START: terms[0], LINEAR: terms[0] + terms[1]}
    if len(terms) > 2:
        models[f"Taylor model of order {len(terms) - 1}"] = terms.sum(axis=0)
    models[NETWORK] = end
    return [
        Score(name, data, targets.accuracy(out), targets.loss(out), len(out))
        for name, out in models.items()
    ]


def kernel_scores(
    name: str, kernels: Kernels, targets: Targets, tested: Targets | None
) -> tuple[list[Score], float]:
    """The scores of kernel regression, and the ridge that leaving one out chooses.

    Args:
        name: of the kernel.
        kernels: of the samples of `targets`, followed by the first of those of `tested`.
        targets: labels to learn; each row is predicted from all others.
        tested: labels of samples that the regression is tested on.
    """
    K, m = total(kernels), len(targets.columns)
    size = float(np.mean(np.diag(K)[:m]))
    if size == 0 or m < 3:
        return [], math.nan
    # Sums of float32 need not come out symmetric to the last bit: PyTorch's once did not. The
    # constant is one more feature: labels need no mean zero.
    K = (K + K.T) / (2 * size) + 1.0
    path = leave_one_out_path(K[:m, :m], targets.columns)
    scores = [_score(name, "rows left out", targets.columns - path.surprises, targets)]
    if tested is not None:
        alpha = np.linalg.solve(K[:m, :m] + path.ridge * np.eye(m), targets.columns)
        some = tested.at(np.arange(len(K) - m))
        scores.append(_score(name, TEST, K[m:, :m] @ alpha, some))
    return scores, path.ridge


def _score(name: str, data: str, predicted: Float[np.ndarray, "n c"], targets: Targets) -> Score:
    """The score of a regression on signs or one-hot rows: no cross-entropy makes sense of them."""
    loss = targets.loss(predicted) if targets.squared else math.nan
    return Score(name, data, targets.accuracy(predicted), loss, len(predicted))
