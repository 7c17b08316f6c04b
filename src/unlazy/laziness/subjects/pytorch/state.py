# SPDX-License-Identifier: Apache-2.0
"""The state of a PyTorch module: its tensors by name, checked against the module, and its inputs.

Names are PyTorch's, such as `layers.0.weight`; paths are the same with "/", as everywhere here.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from unlazy.core.checks import short
from unlazy.laziness.subjects.pytorch.modules import is_torch_module, uncompiled, without_prefix

TorchTrained = Callable[[str], bool] | Mapping[str, bool] | None
"""None for what requires gradients, a function of the path, or booleans by path."""


class State(NamedTuple):
    """The tensors of a module: those that training moves, and the others."""

    moving: dict[str, Tensor]
    fixed: dict[str, Tensor]  # frozen parameters and buffers

    def all(self) -> dict[str, Tensor]:
        """Every tensor by its name."""
        return {**self.moving, **self.fixed}


def path_of(name: str) -> str:
    """The path of a parameter: `layers/0/weight` for `layers.0.weight`."""
    return name.replace(".", "/")


def layer_of(name: str) -> str:
    """The path of the module that holds a parameter; the parameter's own in the outermost one."""
    return path_of(name.rpartition(".")[0] or name)


def trained_names(module: nn.Module, trained: TorchTrained) -> list[str]:
    """The names of the parameters that are trained, in the module's order."""
    floats = {name: p for name, p in module.named_parameters() if p.is_floating_point()}
    if trained is None:
        chosen = [name for name, p in floats.items() if p.requires_grad]
    elif isinstance(trained, Mapping):
        chosen = _chosen_by_names(list(floats), trained)
    else:
        chosen = [name for name in floats if trained(path_of(name))]
    if not chosen:
        raise ValueError(
            "`trained` must choose at least one parameter of the module, got "
            f"trained={short(trained)}, which chooses none. Parameters: {_listed(floats)}."
        )
    return chosen


def _chosen_by_names(names: list[str], trained: Mapping[str, bool]) -> list[str]:
    asked = {path_of(without_prefix(name)): bool(yes) for name, yes in trained.items()}
    unknown = set(asked) - {path_of(name) for name in names}
    if unknown:
        raise ValueError(
            f"`trained` must name parameters of the module, got {_listed(unknown)}. "
            f"Parameters: {_listed(names)}."
        )
    return [name for name in names if asked.get(path_of(name), False)]


def _listed(names: Any, most: int = 8) -> str:
    paths = [path_of(name) for name in names]
    rest = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + rest


def read_state(module: nn.Module, params: Any, moving: list[str], name: str = "params") -> State:
    """The tensors that `params` gives for the module; buffers that it lacks are the module's."""
    given = as_mapping(params, name)
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    known = {*dict(module.named_parameters(remove_duplicate=False)), *module.state_dict(), *buffers}
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ValueError(
            f"`{name}` must hold parameters of the module, got {_listed(unknown)}, which it does "
            f"not have. It has {_listed(parameters)}."
        )
    for key in parameters:
        if key not in given:
            raise ValueError(
                f"`{name}` must hold every parameter of the module, got none at {path_of(key)}. "
                "Use laziness.snapshot(module)."
            )
    values = {
        key: _checked(given[key], like, key, name) if key in given else like.detach()
        for key, like in (parameters | buffers).items()
    }
    # A module may write into its buffers, which are the user's.
    fixed = {key: value.clone() for key, value in values.items() if key not in set(moving)}
    return State({key: values[key] for key in moving}, fixed)


def as_mapping(params: Any, name: str) -> dict[str, Any]:
    """The tensors by their names in the module itself, of a state or of a module."""
    if is_torch_module(params):
        params = uncompiled(params)
        return {**dict(params.named_parameters()), **dict(params.named_buffers())}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise TypeError(
            f"`{name}` must be the state of the module, tensors by their names as state_dict() "
            f"gives them, got {name}={short(params)}. Use laziness.snapshot(module)."
        )
    return {without_prefix(key): value for key, value in params.items()}


def _checked(value: Any, like: Tensor, key: str, name: str) -> Tensor:
    """The tensor, which must be what the module has under this name."""
    path = path_of(key)
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must hold tensors, got {short(value)} at {path}.")
    for what in ("shape", "device", "dtype"):
        found, expected = getattr(value, what), getattr(like, what)
        if found != expected:
            words = f"{tuple(found)}, not {tuple(expected)}," if what == "shape" else (
                f"{found}, not {expected},"
            )  # fmt: skip
            raise ValueError(
                f"`{name}` must have the {what} of the module's own tensors, got {words} at {path}."
            )
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        raise ValueError(f"`{name}` must be finite, got nan or inf at {path}.")
    return value.detach()


def check_one_place(module: nn.Module) -> torch.device:
    """The device of all tensors of the module; raise if there are several, or none are made yet."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for key, value in tensors.items():
        if is_lazy(value):
            raise ValueError(
                f"`module` must know its shapes, got a lazy parameter at {path_of(key)}. "
                "Call the module once."
            )
    places = {value.device: path_of(key) for key, value in reversed(tensors.items())}
    if len(places) > 1:
        found = " and ".join(f"{path} on {device}" for device, path in places.items())
        raise ValueError(f"`module` must be on one device, got {found}. Call module.to(device).")
    return next(iter(places), torch.device("cpu"))


def as_inputs(x: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The inputs as a tensor on the device, without a copy where they are; floats in `dtype`."""
    found = x.detach() if isinstance(x, Tensor) else _tensor_of(x)
    if found.ndim == 0 or 0 in found.shape:
        raise ValueError(
            f"`x` must have shape (n, ...) with n >= 1, got x.shape={tuple(found.shape)}."
        )
    if not found.is_floating_point():
        return found.to(device)
    found = found.to(device, dtype)
    if not bool(torch.isfinite(found).all()):
        raise ValueError("`x` must be finite, got nan or inf.")
    return found


def _tensor_of(x: Any) -> Tensor:
    """An array of JAX or NumPy as a tensor that shares its memory, else as a copy."""
    try:
        return torch.from_dlpack(x)
    except Exception:  # another device, a dtype or a buffer that DLPack does not pass, a list
        try:
            return torch.from_numpy(np.array(x))
        except (TypeError, ValueError) as error:
            raise TypeError(f"`x` must be an array of numbers, got x={short(x)}.") from error
