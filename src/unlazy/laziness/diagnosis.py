# SPDX-License-Identifier: Apache-2.0
"""Is my model lazy? One call, for any model and two points of its training."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unlazy.core.checks import check_count, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.laziness.budgets import Budget, sampled
from unlazy.laziness.examination import Examination, Optimizer, Report, Training
from unlazy.laziness.measurements.recorded import as_losses, check_mean
from unlazy.laziness.measurements.targets import LossName, as_targets
from unlazy.laziness.subjects.choice import as_samples, check_points, subject_of
from unlazy.laziness.verdicts import Remarks, is_fresh
from unlazy.linalg.iterative import Progress


@entry
def diagnose(
    f: Any,
    params_start: Any,
    params_end: Any,
    x: Any,
    y: Any = None,
    *,
    test: Any = None,
    trained: Any = None,
    order: int = 3,
    optimizer: Optimizer = "sgd",
    loss: LossName = "auto",
    learning_rate: int | float | None = None,
    history: Any = None,
    snapshots: Sequence[tuple[int | float, Any]] = (),
    seconds: int | float = 60.0,
    memory: int | float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    r"""Measure how lazily a model was trained, and say so in two sentences.

    A model trains lazily when its outputs change as its linearisation at the start does: its
    tangent kernel then stays what it was, and a kernel would have learned the same. The report
    measures this in nine ways and keeps apart how lazy a training was from how good it is: lazy is
    not bad, and rich is not good.

    | measurement | formula |
    |---|---|
    | movement | $\|\delta\| / \|\theta_0\|$, per layer, over neurons; spectral norms |
    | kernel drift | $\|K_T - K_0\| / \|K_0\|$; 1 - cosine of $K_0, K_T$, plain and centred |
    | alignment | cosine of the centred kernel with $Y Y^\top$, at start and end |
    | flipped activations | share of ReLUs that switched, per layer |
    | Taylor shares | $\langle T_k, D\rangle / \|D\|^2$ with $D = f_T - f_0$, and the remainder |
    | twins | scores of $f_0 + T_1$, of Taylor models, of regression with $K_0$ and $K_T$ |
    | would a kernel do? | exact leave-one-out predictions of these regressions |
    | prediction | the losses recorded beside descent under $K_0$; edge of stability |
    | feature quality | 1 - CKA of the last features with the learned function |

    Kernels are measured on a sub-sample, with as many outputs as time and memory allow; the report
    states both for each measurement, with its formula and what it took. `verdicts.py` has the
    thresholds. Running statistics of batch normalisation are taken as they are at each of the two
    points: outputs are those of the model as it is used. How much of the change of the outputs they
    make alone is measured, and the verdict names it where it is more than a third. A start whose
    statistics no data has set is another function than the one that was trained; the verdict says
    so. Run the model on data in training mode, without training it, before the start is copied.

    Source: arXiv:1812.07956 for laziness, arXiv:2010.15110 for the distance of kernels,
    arXiv:2410.04264 for the last features; BL-8, arXiv:1910.01619, for the terms.

    Args:
        f: the model: a function `f(params, x)` for a batch, or a `torch.nn.Module` in evaluation
            mode. `laziness.from_equinox`, `from_linen` and `from_nnx` make such functions.
        params_start: parameters at the start of the training; of PyTorch a `state_dict` that was
            copied (`laziness.snapshot(module)`).
        params_end: parameters at its end, in the same structure.
        x: samples along the first axis, those that the verdict is to be about: 2 at least.
        y: labels: numbers of classes, text with one class per output in the order of the sorted
            texts, one-hot rows, rows of signs with one +1, or quantities like the outputs. None
            leaves out what needs them.
        test: further samples and labels `(x, y)`, on which the model and its twins are scored too.
        trained: which parameters count, as for `nets.partition`; None for all. The others stay at
            their start throughout; the verdict says so where they moved, and running statistics
            stay with them. For PyTorch a function of
            the path, or booleans by name; None for those that require gradients.
        order: the last Taylor term, 1 or more.
        optimizer: "adam" adds the kernel of the signs of the gradients, which Adam's first steps
            follow.
        loss: what the model was trained on, for the scores and the prediction: "cross-entropy",
            "squared" for half the squared error summed over outputs, with signs or one-hot rows for
            classes; "auto" is cross-entropy for classes, else squared.
        learning_rate: of plain full-batch descent on the mean loss, for the prediction. Where the
            training was on the sum over n samples, as `train.SquaredError` is, give n times its
            rate.
        history: mean losses after each step, `(steps, losses)`, or the `train.History` of a
            training on the mean. Of a sum, divide the losses by n.
        snapshots: pairs `(step, params)` on the way, for the velocity of the kernel.
        seconds: about how long the measurements may take, by counted operations at the speed of
            large matrix products; samples and outputs are chosen by it. It is no limit: compilation
            and tracing come on top, and so do small convolutions, of PyTorch above all, whose
            gradients row by row run at a fraction of that speed: ten times as long is seen.
        memory: bytes for gradients; None for 2 GiB, or four fifths of an accelerator's memory.
        seed: of the sub-sample.
        progress: called as `progress(done, expected)`, with measurements.

    Raises:
        TypeError: `test` is no pair, `history` no losses.
        ValueError: the parameters do not fit each other (the leaf is named), hold nan, lie on
            another device than `x`; the model mixes rows, as batch normalisation in training mode
            does; labels do not fit the outputs; losses are sums over the samples.

    Example:
        >>> import jax.numpy as jnp
        >>> f = lambda w, x: x @ w
        >>> x = np.random.default_rng(0).standard_normal((20, 3))
        >>> report = diagnose(f, jnp.ones(3), jnp.array([1.0, 2.0, 1.0]), x)
        >>> report.verdict.kind
        'exactly lazy'
    """
    check_count(order, "order", most=8)
    check_name(optimizer, ("sgd", "adam"), "optimizer")
    check_name(loss, ("auto", "cross-entropy", "squared"), "loss")
    check_positive(seconds, "seconds")
    if memory is not None:
        check_positive(memory, "memory")
    budget, losses = Budget.of(seconds, memory), as_losses(history)
    x, test = as_samples(x), _as_pair(test)
    if test is not None and y is None:
        raise ValueError("`y` must be the labels of `x` where `test` is given, got None.")
    subject = subject_of(f, params_start, x, trained=trained, memory=budget.memory)
    check_points(subject, params_start, params_end)
    kernels = (2 + len(snapshots)) * (2 if optimizer == "adam" else 1)
    sample = sampled(
        subject,
        params_start,
        x,
        budget,
        kernels=kernels,
        tests=0 if test is None else len(test[0]),
        order=order,
        seed=seed,
    )
    c = sample.directions.shape[0]
    targets = None if y is None else as_targets(y, len(x), c, loss=loss)
    end = subject.moved(params_start, params_end)
    found, given = (subject.outputs(params, x[:2]) for params in (end, params_end))
    others = not np.array_equal(found, given)
    remarks = Remarks(others, is_fresh(*map(subject.statistics, (params_start, end))))
    examination = Examination(subject, params_start, end, x, targets, sample, order, remarks)
    training = Training(optimizer, learning_rate, losses, tuple(snapshots), remark="")
    training = training._replace(remark=_remark(examination, training))
    return examination.report(test, training, progress)


def _remark(examination: Examination, training: Training) -> str:
    """What to mind of the losses that are to be predicted; raise where they are sums."""
    targets, losses, passes = examination.targets, training.history, examination.sample.passes
    is_plain = training.learning_rate is not None and training.optimizer == "sgd"
    if losses is None or targets is None or not is_plain:
        return ""
    at_start = examination.subject.outputs(examination.start, examination.x[passes])
    return check_mean(losses, targets.at(passes), at_start, len(examination.x))


def _as_pair(test: Any) -> tuple[Any, Any] | None:
    """Test samples and their labels."""
    if test is None:
        return None
    if not isinstance(test, tuple | list) or len(test) != 2:
        shape = getattr(test, "shape", None)
        found = f"{type(test).__name__}" + ("" if shape is None else f" of shape {tuple(shape)}")
        found += f" of length {len(test)}" if isinstance(test, tuple | list) else ""
        raise TypeError(f"`test` must be a pair (x, y), got {found}.")
    return as_samples(test[0], "test"), test[1]
