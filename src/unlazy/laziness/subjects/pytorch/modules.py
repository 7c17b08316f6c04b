# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules, recognised and copied by a library that does not import PyTorch.

PyTorch is an optional extra: whoever has a module has imported it already.
"""

from typing import Any

from unlazy.core.checks import short
from unlazy.core.entries import entry, is_torch_module

_COMPILED = "_orig_mod"  # where `torch.compile` keeps the module that it was given


def check_torch_module(module: Any, name: str = "module") -> None:
    """Raise unless `module` is a `torch.nn.Module`."""
    if not is_torch_module(module):
        raise TypeError(
            f"`{name}` must be a torch.nn.Module, got {name}={short(module)}. "
            "A model of JAX goes through laziness.from_equinox, from_linen or from_nnx."
        )


def uncompiled(module: Any) -> Any:
    """The module itself of one that `torch.compile` has wrapped."""
    return getattr(module, _COMPILED, module)


def without_prefix(name: str) -> str:
    """The name of a parameter in the module itself, where it was read from a compiled one."""
    return name.removeprefix(f"{_COMPILED}.")


@entry
def snapshot(module: Any) -> dict[str, Any]:
    """A copy of all parameters and buffers of a PyTorch module, as they are now.

    `module.state_dict()` shares its memory with the module: it changes as training goes on, and a
    start that is kept so equals the end. A snapshot stays.

        start = ul.laziness.snapshot(module)
        train(module)
        end = ul.laziness.snapshot(module)

    Args:
        module: any `torch.nn.Module`.

    Returns:
        The tensors by their names, on the device of the module, for
        `module.load_state_dict` and for every function here that takes the state of a module.

    Raises:
        TypeError: `module` is no PyTorch module.

    Example:
        >>> snapshot("a path")
        Traceback (most recent call last):
        TypeError: `module` must be a torch.nn.Module, got module='a path'. ...
    """
    check_torch_module(module)
    state = uncompiled(module).state_dict()
    return {name: value.detach().clone() for name, value in state.items()}
