# SPDX-License-Identifier: Apache-2.0
"""How lazily a network was trained: movement, kernels and linearisation, from its start and end."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.core.trained import Trained, partition
from unlazy.core.trees import global_norm
from unlazy.kernels import empirical_ntk_traced
from unlazy.laziness.measurements.kernel_drift import distance
from unlazy.linalg import eigh
from unlazy.losses import PointwiseLoss, pointwise
from unlazy.taylor import displacement, terms


class Measured(NamedTuple):
    """What one output scale shows, at its best rate; all nan where every rate diverged."""

    learning_rate: float = math.nan
    train_loss: float = math.nan
    test_loss: float = math.nan
    train_accuracy: float = math.nan
    test_accuracy: float = math.nan
    movement: float = math.nan
    kernel_distance: float = math.nan
    centred_kernel_distance: float = math.nan
    linearisation_error: float = math.nan


class Comparison:
    """A network at its start, with which its trained states are compared."""

    def __init__(
        self,
        f: Callable[[Any, Any], Array],
        params: PyTree,
        of_kernel: Array,
        of_outputs: Array,
        trained: Trained,
    ) -> None:
        self.f, self.params, self.trained = f, params, trained
        self.of_kernel, self.of_outputs = of_kernel, of_outputs
        self.K0 = self._kernel(params)
        self.norm = float(global_norm(partition(params, trained)[0]))
        self._compiled = jax.jit(f)

    def apply(self, params: PyTree, x: Array) -> Float[Array, "n ..."]:
        """The outputs, in full precision: a lazy model changes them by less than TF32 rounds."""
        with jax.default_matmul_precision("highest"):
            return self._compiled(params, x)

    def curvature(self, loss: Any) -> float:
        r"""The largest curvature of the loss at the start, where $\gamma = 1$.

        This is $\kappa \lambda_{\max}(K) / (n c^2)$ for the traced kernel K of c outputs and a loss
        whose second derivative is at most $\kappa$: a mean over n c entries, and a kernel that the
        outputs share alike.
        """
        n, outputs = self.K0.shape[0], self.apply(self.params, self.of_kernel[:1]).size
        is_named = isinstance(loss, str | PointwiseLoss)
        bound = pointwise(loss).curvature if is_named else 1.0
        return float(eigh(self.K0).values[0]) * bound / (n * outputs**2)

    def movement(self, end: PyTree) -> float:
        """The norm of the change of the trained parameters over their norm at the start."""
        delta = displacement(self.params, end)
        return float(global_norm(delta)) / self.norm if self.norm else math.inf

    def kernel_distances(self, end: PyTree) -> tuple[float, float]:
        """One less the cosine of the kernels at start and end, plain and centred."""
        found = distance(self.K0, self._kernel(end))
        return found.turned, found.centred

    def linearisation_error(self, end: PyTree) -> float:
        r"""$\|f_T - f_0 - J\delta\| / \|f_T - f_0\|$ over all outputs."""
        delta = displacement(self.params, end)
        start, linear = terms(self.f, self.params, delta, self.of_outputs, 1, at_kinks="jax")
        change = np.asarray(self.apply(end, self.of_outputs) - start, np.float64)
        size = np.linalg.norm(change)
        return float(np.linalg.norm(change - np.asarray(linear)) / size) if size else math.nan

    def centred_outputs(self, end: PyTree, x: Array) -> Float[Array, "n ..."]:
        """How far the function has moved."""
        return self.apply(end, x) - self.apply(self.params, x)

    def _kernel(self, params: PyTree) -> Float[np.ndarray, "n n"]:
        K = empirical_ntk_traced(self.f, params, self.of_kernel, trained=self.trained)
        return np.asarray(K, np.float64)


def accuracy(outputs: Array | np.ndarray, y: Array | np.ndarray) -> float:
    """The share of rows on the right side, or with the right column the largest; nan if no class.

    Labels of plus and minus 1 are two classes. Several columns are classes where they hold two
    numbers in all, the larger one once per row.

    Example:
        >>> accuracy(np.array([2.0, -1.0, 3.0]), np.array([1.0, -1.0, -1.0]))
        0.6666666666666666
        >>> accuracy(np.array([2.0, -1.0]), np.array([0.3, 0.1]))
        nan
    """
    z, labels = (np.asarray(a, np.float64).reshape(len(a), -1) for a in (outputs, y))
    if labels.shape != z.shape:
        return math.nan
    if labels.shape[1] == 1:
        is_sign = set(np.unique(labels)) <= {-1.0, 1.0}
        return float(np.mean(z * labels > 0)) if is_sign else math.nan
    is_largest = labels == labels.max()
    is_class = len(np.unique(labels)) == 2 and (is_largest.sum(axis=1) == 1).all()
    return float(np.mean(z.argmax(axis=1) == labels.argmax(axis=1))) if is_class else math.nan
