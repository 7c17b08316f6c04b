# SPDX-License-Identifier: Apache-2.0
"""What can be seen while a PyTorch module computes: its ReLU units, and its last features."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from unlazy.laziness.subjects.pytorch.state import path_of

_aten = torch.ops.aten
# With a kink at 0 whatever their other arguments are.
_AT_ZERO = {
    *(_aten.relu, _aten.relu_, _aten.leaky_relu, _aten.leaky_relu_, _aten._prelu_kernel),
    *(_aten.rrelu_with_noise, _aten.rrelu_with_noise_),
}
# With a kink at their second argument.
_AT_BOUND = {
    *(_aten.clamp, _aten.clamp_, _aten.clamp_min, _aten.clamp_min_, _aten.hardtanh),
    *(_aten.hardtanh_, _aten.threshold, _aten.threshold_, _aten.maximum),
}


class Use(NamedTuple):
    """One use of a linear layer: what went in and what came out."""

    features: Tensor
    outputs: Tensor


class ReluRecorder(TorchDispatchMode):
    """Notes which units are active at each ReLU, whichever function or method computes it."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[tuple[str, Tensor]] = []
        self.layer = ""  # the last module with parameters that has been used

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute the operation, and note its units before it can overwrite them."""
        units = _units(func.overloadpacket, args, kwargs or {})
        if units is not None:
            where = f" after {self.layer}" if self.layer else ""
            self.active.append((f"relu {len(self.active) + 1}{where}", units > 0))
        return func(*args, **(kwargs or {}))


def _units(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """What goes into a ReLU; None if the operation is another."""
    if operation in _AT_ZERO:
        return args[0]
    if operation not in _AT_BOUND or not args[0].is_floating_point():
        return None
    first, bound, *_ = (*args, kwargs.get("min"))
    if operation is _aten.maximum and _is_zero(first):
        return bound
    return first if _is_zero(bound) else None


def _is_zero(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not bool(value.any())
    return value is not None and value == 0


def active_units(
    module: nn.Module, forward: Callable[[], Any], n: int
) -> dict[str, Bool[Tensor, "n units"]]:
    """Per ReLU in the order of use, which units are active at each of the n rows."""
    recorder = ReluRecorder()

    def note(name: str) -> None:
        recorder.layer = path_of(name)

    owners = [(name, part) for name, part in module.named_modules() if name and part._parameters]
    with _hooks([(part, lambda *_, name=name: note(name)) for name, part in owners]), recorder:
        forward()
    return {name: _by_rows(active, n) for name, active in recorder.active}


def _by_rows(values: Tensor, n: int) -> Tensor:
    """One row per sample; a module may have merged or moved the axis of the samples."""
    if len(values) % n and n in values.shape:
        values = values.movedim(values.shape.index(n), 0)
    if values.numel() % n:
        raise ValueError(
            f"`module` must keep the samples apart, got a ReLU of shape {tuple(values.shape)} "
            f"for {n} samples."
        )
    return values.reshape(n, -1)


def last_features(module: nn.Module, forward: Callable[[], Tensor]) -> Tensor:
    """What the last `nn.Linear` is multiplied with, if its outputs are those of the module."""
    uses: list[Use] = []

    def note(_: nn.Module, args: tuple, kwargs: dict[str, Any], outputs: Tensor) -> None:
        features = args[0] if args else kwargs["input"]
        uses[:] = [Use(features.clone(), outputs.clone())]  # either may be overwritten

    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    with _hooks([(part, note) for part in linear], with_kwargs=True):
        outputs = forward()
    if not uses or not _is_multiple(outputs, uses[0].outputs):
        found = "another operation after it" if uses else "no nn.Linear"
        raise ValueError(
            "`module` must end in an nn.Linear, whose inputs are then its last features, "
            f"got {found}."
        )
    return uses[0].features.reshape(len(outputs), -1)


def _is_multiple(outputs: Tensor, of: Tensor) -> bool:
    """Whether the outputs are these, in another shape or times a constant."""
    if outputs.numel() != of.numel():
        return False
    outputs, of = outputs.flatten(), of.flatten()
    if torch.equal(outputs, of):
        return True
    factor = float((outputs @ of) / (of @ of))
    rounding = 100 * torch.finfo(of.dtype).eps * outputs.abs().max()
    is_near = bool((outputs - factor * of).abs().max() <= rounding)
    return len(of) > 1 and factor != 0 and is_near  # of one number, any is a multiple


@contextlib.contextmanager
def _hooks(
    hooks: list[tuple[nn.Module, Callable[..., None]]], *, with_kwargs: bool = False
) -> Iterator[None]:
    """Call these after the forward passes of the modules, for as long as the scope lasts."""
    handles = [part.register_forward_hook(hook, with_kwargs=with_kwargs) for part, hook in hooks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
