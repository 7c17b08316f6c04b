# SPDX-License-Identifier: Apache-2.0
"""The sweep of output scales: where does training become lazy, and where is it best?"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from unlazy.core.checks import check_count, check_finite, check_real, short
from unlazy.core.entries import entry
from unlazy.core.trained import Trained, partition
from unlazy.kernels.empirical.model import Model, check_outputs
from unlazy.laziness.output_losses import MeanOf, OutputLoss, as_output_loss, check_scalar_loss
from unlazy.laziness.output_scale.measures import Comparison, Measured, accuracy
from unlazy.laziness.output_scale.result import OutputScaleSweep, sweep_result
from unlazy.laziness.output_scale.training import joined, natural_rates, train_lanes
from unlazy.laziness.traced_features import find_features
from unlazy.linalg.iterative import Progress
from unlazy.train import GridResult
from unlazy.train.grid.checks import numbers

Labelled = tuple[Any, Any]
"""Inputs and labels, samples along the first axis."""

_GAMMAS = tuple(10.0 ** (k / 2) for k in range(-4, 5))
_MULTIPLES = (0.1, 0.3, 1.0)


@entry
def output_scale_sweep(
    f: Callable[[Any, Any], Array],
    params: PyTree,
    data: Labelled,
    *,
    test: Labelled | None = None,
    gammas: Any = _GAMMAS,
    learning_rates: Any = None,
    loss: OutputLoss = "half-squared",
    epochs: int = 200,
    batch_size: int | None = None,
    momentum: int | float = 0.0,
    trained: Trained = None,
    rows: int = 64,
    progress: Progress | None = None,
    key: PRNGKeyArray | None = None,
) -> OutputScaleSweep:
    r"""Train $(f - f_0)/\gamma$ over output scales and learning rates, as one compiled program.

    $$g(\theta, x) = \frac{f(\theta, x) - f(\theta_0, x)}{\gamma}$$

    A small $\gamma$ blows the output up: tiny movements of the weights fit the labels, and training
    is lazy ($\alpha = 1/\gamma$ of Chizat, Oyallon and Bach). A large $\gamma$ makes the weights
    travel: training is rich. Every scale is trained by SGD at several multiples r of its natural
    rate, and shown at the one with the smallest training loss:

    $$\eta = r\, s(\gamma), \qquad s(\gamma) = \gamma^2 \text{ for } \gamma \le 1, \quad
    \gamma^{2/L} \text{ for } \gamma > 1$$

    with L the number of weight layers of the network. Training is called lazy where the linearised
    network at the trained weights is within 10% of the network:

    $$\frac{\|f_T - f_0 - J\delta\|}{\|f_T - f_0\|} < 0.1$$

    Source: arXiv:1812.07956 for the scale; arXiv:2410.04642 for the rates.

    Args:
        f: the network `f(params, x)`, as for `kernels.empirical_ntk`.
        params: the start, any pytree.
        data: `(x, y)` to train on.
        test: `(x, y)` to be tested on; None for none.
        gammas: output scales, positive and distinct.
        learning_rates: the multiples r. None for 0.1, 0.3 and 1 divided by the largest
            eigenvalue of the kernel over n, and by the largest curvature of a named loss. At 2 and
            above lazy training on full batches is unstable: it is thrown out of the lazy regime,
            at scales that are lazy otherwise.
        loss: the name of a loss of `losses.pointwise`, of which the mean over all entries is taken,
            or a function of the outputs and labels that gives a scalar.
        epochs: how often each lane goes through the data.
        batch_size: samples per step; None for all of them.
        momentum: of SGD.
        trained: which parameters are trained, as for `nets.partition`.
        rows: how many rows the kernels and the linearised network are compared on: the first ones
            of the training set, and of the test set or else of the training set.
        progress: called with (work done, work in all): epochs of all lanes, then one per scale.
        key: for the order of the mini-batches; needed when `batch_size` is given.

    Returns:
        Per output scale: best rate, losses, accuracies (labels of plus and minus 1, or one column
        per class), movement of the weights, distances of the kernels at start and end, error of the
        linearisation; `print(result)` is the table, `result.plot()` the figure. Scales at which
        every rate diverged are left out, with a note.

    Raises:
        ValueError: data that do not fit the network, or scales that are no positive numbers.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> net = TwoLayer(inputs=2, width=32, activation="tanh")
        >>> params = net.init(key=jax.random.key(0))
        >>> data = (jnp.eye(2), jnp.array([1.0, -1.0]))
        >>> sweep = output_scale_sweep(net, params, data, gammas=[0.01, 10.0], epochs=50)
        >>> bool(sweep.linearisation_error[0] < 0.1 < sweep.linearisation_error[1])
        True
    """
    scales = np.sort(numbers(gammas, "gammas", allow_zero=False))
    check_count(rows, "rows")
    check_count(epochs, "epochs")
    sets = {"train": _checked(data, "data")}
    if test is not None:
        sets["test"] = _checked(test, "test")
    x, of_outputs = sets["train"][0], as_output_loss(loss, sets["train"][1])
    _check_fit(f, params, sets, of_outputs)
    probe = Comparison(f, params, x[:rows], sets.get("test", sets["train"])[0][:rows], trained)
    if learning_rates is None:
        learning_rates = np.array(_MULTIPLES) / probe.curvature(loss)
    natural = natural_rates(scales, max(1, len(find_features(f, params, x).places)))
    work = _Work(progress, len(scales))
    grid = train_lanes(
        *(f, params, sets),
        loss=of_outputs,
        gammas=scales,
        rates=natural,
        multiples=numbers(learning_rates, "learning_rates", allow_zero=False),
        epochs=epochs,
        batch_size=batch_size,
        momentum=momentum,
        trained=trained,
        progress=work.trained,
        key=key,
    )
    measured = []
    for i, gamma in enumerate(scales.tolist()):
        measured.append(_measured(grid, i, gamma, natural[i], probe, sets))
        work.measured(i + 1, epochs * grid.lanes)
    return sweep_result(scales, measured, grid)


class _Work:
    """Reports what is done: epochs of lanes, and then one unit per output scale."""

    def __init__(self, progress: Progress | None, scales: int) -> None:
        self._progress, self._scales = progress, scales

    def trained(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total + self._scales)

    def measured(self, done: int, trained: int) -> None:
        if self._progress is not None:
            self._progress(trained + done, trained + self._scales)


def _measured(
    grid: GridResult,
    place: int,
    gamma: float,
    natural: float,
    probe: Comparison,
    sets: dict[str, tuple[Array, Array]],
) -> Measured:
    if not np.isfinite(grid.final("train")[..., place]).any():
        return Measured()
    best = grid.best("train", replicate=place)
    end = joined(best.params)
    plain, centred = probe.kernel_distances(end)
    hits = {
        name: accuracy(probe.centred_outputs(end, x) / gamma, y) for name, (x, y) in sets.items()
    }
    return Measured(
        learning_rate=best.learning_rate * natural,
        train_loss=best.values["train"],
        test_loss=best.values.get("test", math.nan),
        train_accuracy=hits["train"],
        test_accuracy=hits.get("test", math.nan),
        movement=probe.movement(end),
        kernel_distance=plain,
        centred_kernel_distance=centred,
        linearisation_error=probe.linearisation_error(end),
    )


def _checked(data: Any, name: str) -> tuple[Array, Array]:
    """Inputs and labels as arrays, floats in JAX's precision."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(f"`{name}` must be a pair of inputs and labels, got {short(data)}.")
    for part in data:
        check_real(part, name)
        if not np.shape(part) or 0 in np.shape(part):
            raise ValueError(
                f"`{name}` must hold arrays with samples along the first axis, one at least, got "
                f"shape {np.shape(part)}."
            )
        check_finite(part, name)
    x, y = (jnp.asarray(part) for part in data)
    if x.shape[0] != y.shape[0]:
        raise ValueError(
            f"`{name}` must have as many labels as inputs, got {y.shape[0]} and {x.shape[0]}."
        )
    return x, y


def _check_fit(f: Any, params: Any, sets: dict[str, tuple[Array, Array]], loss: Any) -> None:
    """Raise unless the network takes the inputs, and the loss its outputs and the labels."""
    arrays, rest = partition(params, None)
    for name, (x, y) in sets.items():
        check_outputs(Model(f, rest), arrays, jax.ShapeDtypeStruct(x.shape, x.dtype))
        outputs = jax.eval_shape(f, params, x)
        if isinstance(loss, MeanOf) and outputs.shape != y.shape:
            raise ValueError(
                f"`{'data' if name == 'train' else name}` must hold labels of the shape of the "
                f"network's outputs, {outputs.shape}, got {y.shape}. Reshape one of them."
            )
        jax.eval_shape(lambda z, y: check_scalar_loss(loss, z, y), outputs, y)
