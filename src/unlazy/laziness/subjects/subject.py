# SPDX-License-Identifier: Apache-2.0
"""A model under examination: what the laziness report asks of it, whatever library it is from.

`JaxSubject` answers for any function `f(params, x)`, `TorchSubject` for a PyTorch module where it
lives. Answers are NumPy arrays on the host: everything above this file knows neither library.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float


@runtime_checkable
class Subject(Protocol):
    """What the report asks of a model; `params` are in the model's own form throughout."""

    @property
    def where(self) -> str:
        """Library and device in words, such as "JAX on cpu"."""
        ...

    def outputs(self, params: Any, x: Any) -> Float[np.ndarray, "n c"]:
        """The outputs at all rows; c = 1 for a model with outputs of shape (n,)."""
        ...

    def operations(self, params: Any, x: Any) -> float:
        """Multiplications and additions of a forward pass, per row."""
        ...

    def weights(self, params: Any) -> dict[str, np.ndarray]:
        """The trained parameters by their paths, such as `layers/0/weight`."""
        ...

    def statistics(self, params: Any) -> dict[str, np.ndarray]:
        """The running statistics by their paths; empty for a model without any."""
        ...

    def moved(self, start: Any, end: Any) -> Any:
        """The end, with all that is not trained as it is at the start.

        Statistics are the end's, unless other parameters moved too: they belong to those then.
        """
        ...

    def with_statistics(self, start: Any, end: Any) -> Any:
        """The start, with the running statistics of the end."""
        ...

    def as_matrix(self, path: str, value: np.ndarray) -> Float[np.ndarray, "out in"] | None:
        """A weight as a matrix with one row per neuron; None for biases, scales and the like."""
        ...

    def layer_kernels(
        self, params: Any, x: Any, directions: Float[np.ndarray, "c k"], *, sign: bool = False
    ) -> dict[str, Float[np.ndarray, "n n"]]:
        r"""The tangent kernel of the outputs `f(x) @ directions`, summed over them, by layer.

        A layer is all trained parameters under one name: `Dense_0` for `Dense_0/kernel` and
        `Dense_0/bias`. The kernels of the layers add up to the kernel of the model. With `sign`,
        gradients enter by the signs of their entries.
        """
        ...

    def taylor_terms(
        self, start: Any, end: Any, x: Any, order: int
    ) -> Float[np.ndarray, "{order}+1 n c"]:
        """The Taylor terms of the outputs at `start` in the direction of `end`."""
        ...

    def active_units(self, params: Any, x: Any) -> dict[str, Bool[np.ndarray, "n units"]]:
        """Per ReLU of the model, in the order of use, which of its units are active at each row."""
        ...

    def last_features(self, params: Any, x: Any) -> Float[np.ndarray, "n k"]:
        """What the last layer is multiplied with.

        Raises:
            ValueError: the last layer cannot be told from the others.
        """
        ...


def joined(x1: Any, x2: Any) -> Any:
    """The samples of both, in the library that they are from."""
    if type(x1).__module__.split(".")[0] == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        return torch.cat([x1, torch.as_tensor(x2, dtype=x1.dtype, device=x1.device)])
    return np.concatenate([np.asarray(x1), np.asarray(x2)])
