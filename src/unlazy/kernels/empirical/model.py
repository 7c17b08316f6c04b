# SPDX-License-Identifier: Apache-2.0
"""A network as a function of its trained parameters and one sample."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.checks import check_name, is_known
from unlazy.compiling import jit_untuned
from unlazy.nets import partition
from unlazy.nets.partition import TRAINED, LayeredParams

Apply = Callable[[Any, Any], Array]
"""A network `f(params, x)`, with x of shape (n, ...) and outputs (n,) or (n, c)."""


@runtime_checkable
class PathFilter(Protocol):
    """Says whether the parameter at a path, such as `layers/0/weight`, is trained."""

    def __call__(self, path: str, /) -> bool:
        """Whether that parameter is trained."""
        ...


Trained = str | PathFilter | PyTree[bool] | None


class Model(eqx.Module):
    """The network, with the parameters that are not trained."""

    f: Apply
    frozen: PyTree

    def batch(self, trained: PyTree, x: Array) -> Float[Array, "n c"]:
        """The outputs at the rows of `x`, one column at least."""
        out = self.f(eqx.combine(trained, self.frozen), x)
        return out.reshape(x.shape[0], -1)

    def __call__(self, trained: PyTree, x: Array) -> Float[Array, " c"]:
        """The outputs at one sample."""
        return self.batch(trained, x[None])[0]


def split_params(params: PyTree, trained: Trained) -> tuple[PyTree, PyTree]:
    """The trained arrays and the rest, each with None in the places of the other.

    Raises:
        ValueError: nothing is trained, or `trained` does not fit `params`.
        UnknownNameError: `trained` is not a known name.
    """
    if trained is None or (isinstance(trained, str) and trained == "all"):
        chosen = jax.tree.map(lambda _: True, params)
    elif isinstance(trained, str):
        chosen = _by_name(params, trained)
    elif _is_mask(trained):
        chosen = _by_mask(params, trained)
    elif callable(trained):
        chosen = jax.tree_util.tree_map_with_path(
            lambda path, _: bool(trained(_word(path))), params
        )
    else:
        raise ValueError(
            "`trained` must be None, a name, booleans in the structure of `params` or a function "
            f"of a leaf's path, got trained={trained!r}."
        )
    chosen = jax.tree.map(lambda yes, leaf: yes and eqx.is_inexact_array(leaf), chosen, params)
    if not any(jax.tree.leaves(chosen)):
        raise ValueError(
            "`trained` must choose at least one floating-point array of `params`, "
            f"got trained={trained!r}, which chooses none. Leaves: {_some_words(params)}."
        )
    arrays, rest = eqx.partition(params, chosen)
    _check_real(arrays)
    return arrays, rest


def _word(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _some_words(params: PyTree) -> str:
    words = [_word(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")


def _by_name(params: PyTree, trained: str) -> PyTree:
    check_name(trained, TRAINED, "trained")
    if not isinstance(params, LayeredParams):
        raise ValueError(
            f"`trained` must be None or a filter for these `params`, got trained={trained!r}. The "
            "names are for the learners of unlazy.nets; give booleans or a function of the path."
        )
    part, _ = partition(params, trained)  # pyright: ignore[reportArgumentType]  # checked above
    return jax.tree.map(lambda leaf: leaf is not None, part, is_leaf=lambda leaf: leaf is None)


def _is_mask(trained: Any) -> bool:
    leaves = jax.tree.leaves(trained)
    return bool(leaves) and all(isinstance(leaf, bool | np.bool_) for leaf in leaves)


def _by_mask(params: PyTree, mask: PyTree) -> PyTree:
    try:
        return jax.tree.map(lambda yes, part: jax.tree.map(lambda _: bool(yes), part), mask, params)
    except ValueError as error:
        raise ValueError(
            "`trained` must be booleans in the structure of `params`, "
            f"got another structure: {error}"
        ) from error


def _check_real(arrays: PyTree) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"`params` must be real where they are trained, got dtype {leaf.dtype} at "
                f"{_word(path)}. Give real and imaginary parts as two arrays."
            )


def check_outputs(model: Model, trained: PyTree, x: Array) -> None:
    """Raise unless `f` returns real outputs of shape (n,) or (n, c) for n rows."""
    rows = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
    out = jax.eval_shape(lambda rows: model.f(eqx.combine(trained, model.frozen), rows), rows)
    shape = getattr(out, "shape", None)
    if shape is None or len(shape) not in (1, 2) or shape[0] != 2 or shape[-1] == 0:
        raise ValueError(
            "`f` must return an array of shape (n,) or (n, c) for n inputs, got "
            f"{shape if shape is not None else type(out).__name__} for n=2. "
            "Flatten the outputs of a sample to one axis; wrap a model of one sample in jax.vmap."
        )
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"`f` must return real floating-point outputs, got dtype {out.dtype}.")


def check_rowwise(model: Model, trained: PyTree, x: Array) -> None:
    """Raise if the output at a row depends on the other rows, as batch normalisation makes it."""
    if x.shape[0] < 2 or not all(is_known(leaf) for leaf in (x, *jax.tree.leaves(trained))):
        return
    gap, scale, eps = (float(value) for value in _rowwise_gap(model, trained, x))
    if not np.isfinite(scale):
        raise ValueError(
            "`f` must give finite outputs, got nan or inf at some rows of `x`. Look at `params`."
        )
    if not gap <= eps**0.5 * scale:  # nan counts as a difference: the variance of one row is 0
        raise ValueError(
            "`f` must treat each row of `x` by itself, got an output that changes by "
            f"{gap:.3g} when other rows join the batch. Put batch normalisation and dropout into "
            "evaluation mode."
        )


@jit_untuned
def _rowwise_gap(model: Model, trained: PyTree, x: Array) -> tuple[Array, Array, float]:
    # Beside the parameters: at a start whose halves cancel the outputs are rounding, no scale.
    trained = jax.tree.map(_beside, trained)
    together, alone = model.batch(trained, x), model.batch(trained, x[:1])
    scale = jnp.max(jnp.abs(together))
    return jnp.max(jnp.abs(together[0] - alone[0])), scale, float(jnp.finfo(scale.dtype).eps)


def _beside(leaf: Array) -> Array:
    """Each entry by up to a tenth larger or smaller, neighbours by unlike parts."""
    wave = jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape)
    return leaf * (1 + wave / 10)
