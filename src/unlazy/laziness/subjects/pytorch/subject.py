# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module under examination, where it lives: on its device and in its dtype.

This file and those beside it, but for `modules`, import PyTorch; they are imported when a module is
given, and not before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from unlazy.core.checks import check_count
from unlazy.core.entries import entry
from unlazy.laziness.subjects.pytorch import forward as torch_forward
from unlazy.laziness.subjects.pytorch import gradients as torch_gradients
from unlazy.laziness.subjects.pytorch import taylor as torch_taylor
from unlazy.laziness.subjects.pytorch.matrices import matrix_of
from unlazy.laziness.subjects.pytorch.modules import check_torch_module, uncompiled
from unlazy.laziness.subjects.pytorch.settings import check_evaluation_mode, exact
from unlazy.laziness.subjects.pytorch.state import (
    State,
    TorchTrained,
    as_inputs,
    check_one_place,
    path_of,
    read_state,
    trained_names,
)

MOST_ROWS = 256  # that are computed at once
MOST_ORDER = 6  # nested derivatives cost 2^order forward passes


class TorchSubject:
    """Answers what the laziness report asks of a model, for a `torch.nn.Module`.

    The module itself is never changed: its parameters are replaced for the time of a call. Its
    state at the start and at the end is given as `params`: what `laziness.snapshot(module)`
    returns, any mapping as `module.state_dict()` gives it, or a module of the same kind. Buffers
    that such a state lacks are those of the module. A `state_dict()` that is not copied shares its
    memory with the module, and moves with it.

    Where a module has a kink, as ReLU at exactly 0, PyTorch's own derivative is taken.
    """

    @entry
    def __init__(
        self, module: Any, *, trained: TorchTrained = None, memory: int | None = None
    ) -> None:
        """Check the module.

        Args:
            module: called with one tensor of shape (n, ...), it returns one of shape (n,) or
                (n, c). Dropout and batch normalisation must be in evaluation mode.
            trained: None for the parameters that require gradients; a function of a path, such as
                `lambda path: path.endswith("/weight")`; or booleans by path, False where none is
                given.
            memory: bytes for the gradients that are held at once; a quarter of what is free where
                it is None.

        Raises:
            ValueError: dropout or batch normalisation in training mode, several devices, or
                nothing that is trained.
        """
        check_torch_module(module)
        if memory is not None:
            check_count(memory, "memory", most=None)
        self.module: nn.Module = uncompiled(module)
        check_evaluation_mode(self.module)
        self._device = check_one_place(self.module)
        self._trained = trained_names(self.module, trained)
        self._dtype = dict(self.module.named_parameters())[self._trained[0]].dtype
        self._memory = memory

    @property
    def where(self) -> str:
        """Library and device in words."""
        return f"PyTorch on {self._device}"

    @entry
    def outputs(self, params: Any, x: Any) -> Float[np.ndarray, "n c"]:
        """The outputs at all rows; c = 1 for a module with outputs of shape (n,)."""
        state = self._read(params)
        return self._over_rows(x, lambda rows: self._apply(state.all(), rows))

    @entry
    def operations(self, params: Any, x: Any) -> float:
        """Multiplications and additions of a forward pass, per row."""
        state, row = self._read(params), self._inputs(x)[:1]
        with exact(self.module), torch.no_grad(), FlopCounterMode(display=False) as counter:
            self._apply(state.all(), row)
        size = sum(value.numel() for value in state.moving.values())
        return float(max(counter.get_total_flops(), 2 * size))

    @entry
    def weights(self, params: Any) -> dict[str, np.ndarray]:
        """The trained parameters by their paths, such as `layers/0/weight`."""
        moving = self._read(params).moving
        return {path_of(name): _on_host(value) for name, value in moving.items()}

    @entry
    def statistics(self, params: Any) -> dict[str, np.ndarray]:
        """The buffers of floats by their paths, such as running means."""
        found = self._statistics(self._read(params))
        return {path_of(name): _on_host(value) for name, value in found.items()}

    @entry
    def moved(self, start: Any, end: Any) -> dict[str, Tensor]:
        """The end, with all that is not trained as it is at the start.

        Statistics are the end's, unless other parameters moved too: they belong to those then.
        """
        first, last = self._read(start, "start"), self._read(end, "end")
        names = {name for name, _ in self.module.named_parameters()} - set(self._trained)
        others = any(not torch.equal(first.fixed[name], last.fixed[name]) for name in names)
        statistics = self._statistics(first if others else last)
        return {**first.all(), **last.moving, **statistics}

    @entry
    def with_statistics(self, start: Any, end: Any) -> dict[str, Tensor]:
        """The start, with the running statistics of the end."""
        return {**self._read(start, "start").all(), **self._statistics(self._read(end, "end"))}

    @entry
    def as_matrix(self, path: str, value: np.ndarray) -> Float[np.ndarray, "out in"] | None:
        """A weight as a matrix with one row per neuron; None for biases, scales and embeddings."""
        return matrix_of(self.module, path, value)

    @entry
    def layer_kernels(
        self, params: Any, x: Any, directions: Float[np.ndarray, "c k"], *, sign: bool = False
    ) -> dict[str, Float[np.ndarray, "n n"]]:
        """The tangent kernels of `f(x) @ directions`, summed over these, by layer.

        A layer is the module that holds a parameter; a parameter of the outermost module is a
        layer of its own. Gradients are taken row by row, so that a weight that is used twice
        counts with both uses; products are in full float32, or in float64 for a float64 module.
        """
        state, rows = self._read(params), self._inputs(x)
        vectors = torch.as_tensor(np.array(directions), device=self._device, dtype=self._dtype)
        with exact(self.module):
            c = self._apply(state.all(), rows[:1]).shape[1]
            if vectors.ndim != 2 or len(vectors) != c:
                raise ValueError(
                    f"`directions` must have shape (c, k) with c={c} outputs, "
                    f"got directions.shape={tuple(vectors.shape)}."
                )
            return torch_gradients.layer_kernels(
                self._apply, state, rows, vectors, sign=sign, memory=self._memory
            )

    @entry
    def taylor_terms(
        self, start: Any, end: Any, x: Any, order: int
    ) -> Float[np.ndarray, "{order}+1 n c"]:
        """The Taylor terms at `start` in the direction of `end`.

        Trained parameters move, and running statistics go along with them; all other parameters
        stay as they are at `start`.
        """
        check_count(order, "order", least=0, most=MOST_ORDER)
        first, last = self._read(start, "start"), self._read(end, "end")
        changes = {**first.moving, **self._statistics(first)}
        delta = {name: last.all()[name] - value for name, value in changes.items()}

        def curve_at(rows: Tensor) -> torch_taylor.Curve:
            return lambda t: self._apply(
                {**first.all(), **{k: v + t * delta[k] for k, v in changes.items()}}, rows
            )

        t = torch.zeros((), dtype=self._dtype, device=self._device)
        with exact(self.module):
            one = curve_at(self._inputs(x)[:1])
            torch_taylor.check_second(one, t, torch_taylor.terms(one, t, min(order, 2)))
        return self._over_rows(x, lambda rows: torch_taylor.terms(curve_at(rows), t, order), axis=1)

    def _statistics(self, state: State) -> dict[str, Tensor]:
        """The buffers of floats, such as running means."""
        names = dict(self.module.named_buffers())
        return {k: v for k, v in state.fixed.items() if k in names and v.is_floating_point()}

    @entry
    def active_units(self, params: Any, x: Any) -> dict[str, Bool[np.ndarray, "n units"]]:
        """Per ReLU in the order of use, which units are active at each row.

        Found by watching the forward pass: `nn.ReLU`, `F.relu`, `torch.relu`, `Tensor.relu_`,
        `clamp(min=0)`, `maximum` with zeros, and the leaky and the parametric ReLU. Named by the
        layer whose parameters were used last.
        """
        state, found = self._read(params), []
        for rows in self._chunks(x):
            with exact(self.module), torch.no_grad():
                forward = lambda rows=rows: self._apply(state.all(), rows)  # noqa: E731
                found.append(torch_forward.active_units(self.module, forward, len(rows)))
        return {
            name: np.concatenate([chunk[name].cpu().numpy() for chunk in found])
            for name in found[0]
        }

    @entry
    def last_features(self, params: Any, x: Any) -> Float[np.ndarray, "n k"]:
        """What the last `nn.Linear` is multiplied with.

        Raises:
            ValueError: its outputs are not those of the module, in another shape or times a
                constant.
        """
        state = self._read(params)
        return self._over_rows(
            x,
            lambda rows: torch_forward.last_features(
                self.module, lambda: self._apply(state.all(), rows)
            ),
        )

    def is_view(self, params: Any) -> bool:
        """Whether these are the tensors of the module itself, which change as it is trained."""
        own, given = (self._read(each).moving for each in (self.module, params))
        return all(own[name].data_ptr() == given[name].data_ptr() for name in own)

    def _read(self, params: Any, name: str = "params") -> State:
        return read_state(self.module, params, self._trained, name)

    def _inputs(self, x: Any) -> Tensor:
        return as_inputs(x, self._device, self._dtype)

    def _chunks(self, x: Any) -> Iterator[Tensor]:
        return iter(self._inputs(x).split(MOST_ROWS))

    def _over_rows(
        self, x: Any, of_rows: Callable[[Tensor], Tensor], *, axis: int = 0
    ) -> np.ndarray:
        """Compute some rows at a time, which is the same as all at once in evaluation mode."""
        with exact(self.module), torch.no_grad():
            return np.concatenate([_on_host(of_rows(rows)) for rows in self._chunks(x)], axis)

    def _apply(self, tensors: dict[str, Tensor], x: Tensor) -> Float[Tensor, "n c"]:
        found = functional_call(self.module, tensors, (x,))
        if not isinstance(found, Tensor):
            raise TypeError(
                "`module` must return one tensor of shape (n,) or (n, c), got a "
                f"{type(found).__name__}. Wrap it in a module that returns what is to be examined."
            )
        if found.ndim not in (1, 2) or len(found) != len(x):
            raise ValueError(
                f"`module` must return a tensor of shape (n,) or (n, c) with n={len(x)}, "
                f"got {tuple(found.shape)}."
            )
        return found.reshape(len(x), -1)


def _on_host(value: Tensor) -> np.ndarray:
    return value.detach().cpu().double().numpy()
