# SPDX-License-Identifier: Apache-2.0
"""The width check: do features still move when the network becomes wide?"""

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from unlazy.core.checks import calling, check_count, check_key, check_real, short
from unlazy.core.entries import entry
from unlazy.core.trained import Trained
from unlazy.laziness.output_losses import OutputLoss
from unlazy.laziness.width.jax_runs import JaxFamily, Made
from unlazy.laziness.width.result import WidthCheck
from unlazy.laziness.width.runs import Rate, Recipe, Run, is_torch_module, loaded_torch
from unlazy.laziness.width.torch_runs import TorchFamily, seeded
from unlazy.laziness.width.verdict import width_result
from unlazy.linalg.iterative import Progress


@entry
def width_check(
    make: Callable[..., Any],
    widths: Sequence[int] | Int[np.ndarray, " widths"],
    x: Any,
    y: Any,
    *,
    loss: OutputLoss = "half-squared",
    learning_rate: Rate | None = None,
    optimizer: Any = None,
    steps: int = 5,
    seeds: int = 5,
    centred: bool = True,
    trained: Trained = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> WidthCheck:
    r"""How far features move in a few training steps, against the width of the network.

    A feature is what a weight layer puts out: its pre-activations, at every unit and sample. Per
    layer and width m, with the mean over units and samples,

    $$\Delta(m) = \sqrt{\text{mean}\,(h_T - h_0)^2} \sim m^{\alpha}$$

    The exponent $\alpha$ is fitted over widths and seeds. At -1/2 a network becomes lazy as it
    widens: its features stand still while its function learns, as under the NTK. At 0 features
    move at every width, as in the mean-field and maximal-update (muP) scalings. Above 0 training
    becomes unstable. Up to -0.35 counts as the first, -0.15 to 0.15 as the second.

    The exponent belongs to a parametrisation: the scales of the start, the factors in the network
    *and* the learning rates, which `make`, `learning_rate` and `optimizer` say together. The right
    rate lets the *function* move at every width; the last row of the table shows it. With
    $1/\sqrt m$ before the output (NTK scaling) that is a constant rate. With $1/m$ (mean field) it
    is a rate like m: give `learning_rate=lambda m: 0.1 * m`. Without any factor (the default of
    most libraries) it is a rate like 1/m.

    Models are trained on all rows of `x` at a time. PyTorch modules are trained in evaluation mode,
    and their features are what their modules with a weight put out, as seen by forward hooks.

    Source: the coordinate check of arXiv:2203.03466, appendix D.1; the exponents are those of
    arXiv:2011.14522.

    Args:
        make: `make(width, key)`, which gives `(f, params)` or an object with fields `f` and
            `params`: a model `f(params, x)` of any JAX library. Or `make(width)`, which gives a
            PyTorch module, made under a seed that `key` determines.
        widths: two at least, increasing, such as [64, 128, 256, 512].
        x: inputs, samples along the first axis. For PyTorch arrays or tensors.
        y: labels, one row per sample.
        loss: the name of a loss of `losses.pointwise`, of which the mean over all entries is taken,
            or a function of the outputs and `y` that gives a scalar. For PyTorch the names
            "half-squared", "squared" and "logistic", or a function of tensors.
        learning_rate: of plain gradient descent, a number or a function of the width; 0.1 if None.
        optimizer: another optimiser: one of optax, or a function of the width that makes it. For
            PyTorch a function of the module and the width, such as
            `lambda model, width: torch.optim.Adam(model.parameters(), lr=1e-3)`.
        steps: updates per run.
        seeds: runs per width, each from a start of its own.
        centred: whether to train $f - f_0$, with $f_0$ the function at the start. A random start
            is as large as the labels in NTK scaling, and scatters the movements of the seeds:
            a two-layer network at five seeds and widths up to 1024 gave -0.59 with a standard
            error of 0.08 for f, and -0.50 with one below 0.01 for $f - f_0$.
        trained: which parameters of a JAX model are trained, as for `nets.partition`.
        progress: called with (runs done, runs in all).
        key: for the starts.

    Returns:
        Movements, exponents with standard errors, and verdicts: `print(result)` is the table and
        `result.plot()` the figure. Runs whose loss is no longer finite are left out of the fits,
        with a note.

    Raises:
        ValueError: fewer than two widths, or not increasing; models whose layers differ from width
            to width; labels that do not fit the outputs; both `learning_rate` and `optimizer`.
        TypeError: `make` or `optimizer` gives something else.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> from unlazy.data import sphere
        >>> def make(width, key):
        ...     net = TwoLayer(inputs=3, width=width, activation="tanh")
        ...     return net, net.init(key=key)
        >>> x = sphere(8, 3, key=jr.key(0))
        >>> result = width_check(make, [64, 512], x, x[:, 0], steps=2, key=jr.key(1))
        >>> result.layers, result.verdicts[0], bool(abs(result.exponents[0] + 0.5) < 0.1)
        (('W', 'output'), 'lazy in the limit', True)
    """
    numbers = _checked_widths(widths)
    _check_rows(x, y)
    check_count(steps, "steps")
    check_count(seeds, "seeds")
    check_key(key)
    if learning_rate is not None and optimizer is not None:
        raise ValueError(
            "`learning_rate` must be None where `optimizer` is given, got both: the rate is the "
            "optimiser's own."
        )
    makers = [
        [_Maker(make, m, jr.fold_in(jr.fold_in(key, i), j)) for j in range(seeds)]
        for i, m in enumerate(numbers.tolist())
    ]
    kind = TorchFamily if is_torch_module(makers[0][0].tried()) else JaxFamily
    family = kind(x, y, Recipe(loss, learning_rate, optimizer, steps, trained, bool(centred)))
    done, runs = 0, []
    for row in makers:
        runs.append([])
        for maker in row:
            runs[-1].append(family.run(maker.made(torch=kind is TorchFamily), maker.width))
            _check_alike(runs[0][0], runs[-1][-1], maker.width)
            done += 1
            if progress is not None:
                progress(done, seeds * len(numbers))
    return width_result(runs, numbers, family.where)


class _Maker:
    """One call of `make`, at one width and for one seed."""

    def __init__(self, make: Callable[..., Any], width: int, key: PRNGKeyArray) -> None:
        if not callable(make):
            raise TypeError(f"`make` must be a function of a width and a key, got make={make!r}.")
        self.make, self.width, self.key = make, width, key
        self.takes_key = _takes(make, width, key)

    def __call__(self) -> Any:
        with calling("make", "a width and a key, or a width alone for PyTorch"):
            return self.make(self.width, self.key) if self.takes_key else self.make(self.width)

    def tried(self) -> Any:
        """A model to be looked at, made without an effect on PyTorch's generator."""
        return self() if loaded_torch() is None else seeded(self, 0)

    def made(self, *, torch: bool) -> Any:
        """The model, checked."""
        if torch:
            found = seeded(self, int(jr.randint(self.key, (), 0, 2**31 - 1)))
            if is_torch_module(found):
                return found
        else:
            found = self()
        pair: Any = found
        if not isinstance(found, tuple):
            pair = (getattr(found, "f", None), getattr(found, "params", None))
        if torch or len(pair) != 2 or not callable(pair[0]) or pair[1] is None:
            raise TypeError(
                "`make` must give (f, params), an object with fields `f` and `params`, or a "
                f"PyTorch module, the same kind at every width, got {short(found)}."
            )
        if not self.takes_key:
            raise TypeError(
                "`make` must take a width and a key for JAX models, got a function of the width "
                "alone: its starts would all be the same."
            )
        return Made(*pair)


def _takes(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


def _checked_widths(widths: Any) -> Int[np.ndarray, " widths"]:
    found = widths.tolist() if isinstance(widths, np.ndarray) else list(widths)
    for width in found:
        check_count(width, "widths")
    if len(found) < 2 or any(b <= a for a, b in itertools.pairwise(found)):
        raise ValueError(
            "`widths` must be two or more increasing integers, such as [64, 128, 256, 512], got "
            f"widths={found}."
        )
    return np.asarray(found)


def _check_rows(x: Any, y: Any) -> None:
    for name, value in (("x", x), ("y", y)):
        if not hasattr(value, "detach"):  # a tensor, which PyTorch looks at
            check_real(value, name)
        if not np.shape(value) or 0 in np.shape(value):
            raise ValueError(
                f"`{name}` must have samples along its first axis, one at least, got "
                f"{name}.shape={tuple(np.shape(value))}."
            )
    if np.shape(x)[0] != np.shape(y)[0]:
        raise ValueError(
            f"`y` must have one row per sample, {np.shape(x)[0]} in all, got y.shape="
            f"{tuple(np.shape(y))}."
        )


def _check_alike(first: Run, run: Run, width: int) -> None:
    if run.layers != first.layers:
        raise ValueError(
            "`make` must give models of the same layers at every width, got "
            f"{', '.join(run.layers)} at width {width} after {', '.join(first.layers)}."
        )
