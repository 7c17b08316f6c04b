# SPDX-License-Identifier: Apache-2.0
"""The parameters of a model as copies that training cannot change, and as files of plain arrays.

Files hold one array per path and no pickle, so that any program can read them. PyTorch's state
is a dictionary of tensors, and JAX's parameters are any pytree: both are read in the same way.
"""

import io
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from unlazy.core.disk import NotAFileError, open_regular, replace_file
from unlazy.core.errors import DataFileError
from unlazy.taylor.movement import float64_if, is_wide

_PREFIX = "params/"  # NumPy takes some bare names for arguments of its own


def copied(params: PyTree) -> PyTree:
    """A copy that stays as it is: optimisers donate the memory of old parameters to new ones."""
    leaves, structure = jax.tree.flatten(params)
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    with float64_if(is_wide(params)):
        copies = _copies([leaves[k] for k in places])
    for k, copy in zip(places, copies, strict=True):
        leaves[k] = copy
    return structure.unflatten([_copy(leaf) for leaf in leaves])


@jax.jit
def _copies(arrays: list[jax.Array]) -> list[jax.Array]:
    # One program for all: a program per array is a seventh of a look on a GPU.
    return [jnp.copy(array) for array in arrays]


def _copy(leaf: Any) -> Any:
    if _is_tensor(leaf):
        return leaf.detach().clone()
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def arrays_of(params: PyTree) -> dict[str, np.ndarray]:
    """Every array of the parameters by its path, on the host; without random keys."""
    return {path: _on_host(leaf) for path, leaf in _leaves(params) if _is_stored(leaf)}


def shapes_of(params: PyTree) -> dict[str, list[Any]]:
    """The dtype and the shape of every array by its path."""
    return {
        path: [str(leaf.dtype).removeprefix("torch."), *leaf.shape]
        for path, leaf in _leaves(params)
        if _is_stored(leaf)
    }


def filled(params: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """The parameters with these arrays in the place of their own, where those lie."""

    def place(path: tuple, leaf: Any) -> Any:
        return _like(leaf, arrays[_word(path)]) if _is_stored(leaf) else leaf

    with float64_if(is_wide(params)):
        return jax.tree_util.tree_map_with_path(place, params)


def _leaves(params: PyTree) -> list[tuple[str, Any]]:
    found = jax.tree_util.tree_leaves_with_path(params)
    return [(_word(path), leaf) for path, leaf in found]


def _word(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_tensor(leaf: Any) -> bool:
    return type(leaf).__module__.split(".")[0] == "torch" and hasattr(leaf, "detach")


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def _is_stored(leaf: Any) -> bool:
    if _is_tensor(leaf):
        return True
    return _is_array(leaf) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _on_host(leaf: Any) -> np.ndarray:
    """The entries as NumPy can store them: of bfloat16 and its like the bits."""
    if _is_tensor(leaf):
        import torch

        value = leaf.detach().cpu()
        if value.dtype == torch.bfloat16:
            value = value.view(torch.int16)
        return value.numpy().copy()
    array = np.array(leaf)
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _like(leaf: Any, array: np.ndarray) -> Any:
    if _is_tensor(leaf):
        import torch

        value = torch.from_numpy(np.array(array))
        value = value.view(torch.bfloat16) if leaf.dtype == torch.bfloat16 else value
        return value.to(leaf.device)
    dtype = np.dtype(leaf.dtype)
    array = array if dtype.isbuiltin == 1 else array.view(dtype)
    return jax.device_put(array, leaf.sharding) if isinstance(leaf, jax.Array) else array


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays as one file, which is whole or not there at all."""
    buffer = io.BytesIO()
    named: dict[str, Any] = {_PREFIX + name: array for name, array in arrays.items()}
    np.savez(buffer, **named)
    replace_file(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file.

    Raises:
        DataFileError: it is damaged, or something else.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as found:
            return {name.removeprefix(_PREFIX): found[name] for name in found.files}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotAFileError, KeyError) as error:
        raise DataFileError(
            f"cannot read '{path}': {error}. It is no file that a probe has written whole; delete "
            "its folder or use another."
        ) from error
