# SPDX-License-Identifier: Apache-2.0
"""The subject of a report from what a user gives: a function of JAX, or a module of PyTorch."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from unlazy.laziness.subjects.adapters import is_flax_module
from unlazy.laziness.subjects.jax_subject import JaxSubject
from unlazy.laziness.subjects.pytorch.modules import is_torch_module
from unlazy.laziness.subjects.subject import Subject
from unlazy.taylor.movement import float64_if, is_wide, matched


def subject_of(
    model: Any, params: Any, x: Any, *, trained: Any = None, memory: int | float | None = None
) -> Subject:
    """The model under examination.

    Raises:
        ValueError: `x` holds no two samples, or the model does not take them.
        TypeError: `model` is neither a function nor a module.
    """
    if len(x) < 2:
        raise ValueError(
            f"`x` must hold two samples at least along its first axis, got x.shape={np.shape(x)}."
        )
    if is_torch_module(model):
        from unlazy.laziness.subjects.pytorch.subject import TorchSubject

        return TorchSubject(model, trained=trained, memory=None if memory is None else int(memory))
    if not callable(model) or is_flax_module(model):
        hint = " Take laziness.from_linen or from_nnx." if is_flax_module(model) else ""
        raise TypeError(
            "`f` must be a function `f(params, x)` or a torch.nn.Module, got "
            f"{type(model).__name__}.{hint}"
        )
    _check_devices(params, x)
    f: Any = model
    return JaxSubject(f, params, x, trained=trained, memory=memory)


def as_samples(x: Any, name: str = "x") -> Any:
    """The samples as an array of any library; lists become arrays of NumPy."""
    found = x if hasattr(x, "shape") else np.asarray(x)
    if not np.shape(found):
        raise ValueError(
            f"`{name}` must be an array with samples along its first axis, got "
            f"{type(x).__name__}. A model of several inputs takes them joined in one array."
        )
    return found


def check_points(subject: Subject, start: Any, end: Any) -> None:
    """Raise unless the two sets of parameters fit each other and are finite."""
    if isinstance(subject, JaxSubject):
        with float64_if(is_wide(start)):
            matched(start, end, "params_end", "params_start")
    elif start is not end:
        _check_copied(subject, start, end)
    for name, params in (("params_start", start), ("params_end", end)):
        for path, value in subject.weights(params).items():
            if not np.all(np.isfinite(value)):
                raise ValueError(f"`{name}` must be finite, got nan or inf at {path}.")


def _check_copied(subject: Any, start: Any, end: Any) -> None:
    """Raise if the start is a view of the module, which has moved along with the training."""
    before, after = subject.weights(start), subject.weights(end)
    is_same = all(np.array_equal(before[path], after[path]) for path in before)
    if is_same and subject.is_view(start):
        raise ValueError(
            "`params_start` must be a copy from before the training, got tensors that share their "
            "memory with the module. Take laziness.snapshot(module) before the training."
        )


def _check_devices(params: PyTree, x: Any) -> None:
    """Raise if parameters and samples lie on different devices."""
    places = {
        device
        for leaf in jax.tree.leaves(params)
        if isinstance(leaf, jax.Array) and getattr(leaf, "committed", True)
        for device in leaf.devices()
    }
    there = set(x.devices()) if isinstance(x, jax.Array) else set()
    if len(places) == 1 and len(there) == 1 and places != there:
        raise ValueError(
            f"`x` must be on the device of the parameters, {_word(places)}, got {_word(there)}. "
            "Move it with jax.device_put."
        )


def _word(devices: set) -> str:
    return ", ".join(sorted(map(str, devices)))
