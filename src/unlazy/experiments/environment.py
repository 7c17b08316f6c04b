# SPDX-License-Identifier: Apache-2.0
"""What a number was computed with: versions, devices and precision."""

import functools
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

PACKAGES = (
    *("unlazy", "jax", "jaxlib", "equinox", "jaxtyping", "optax", "numpy", "scipy"),
    *("scikit-learn", "matplotlib", "pyarrow"),
)
OPTIONAL = "torch", "flax", "dask", "distributed"  # no result depends on them unless asked for


def optional_versions() -> dict[str, str | None]:
    """The versions of packages that some functions use, without importing them; None if absent."""
    return {package: _version(package) for package in OPTIONAL}


def versions() -> dict[str, str]:
    """The versions of Python, this library and its dependencies, without importing them."""
    return dict(_versions())


@functools.cache  # every cell records them, and looking them up takes longer than a small cell
def _versions() -> dict[str, str]:
    from unlazy import __version__

    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = _version(package) or "not installed"
    # From the running code: the record of an editable installation may be stale.
    found["unlazy"] = __version__
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def devices() -> list[str]:
    """The devices that JAX computes on, the default one first."""
    import jax

    return list(map(_name, jax.devices()))


def used_device() -> str:
    """The device that JAX computes on here and now, without importing it if it was not used."""
    if "jax" not in sys.modules:
        return f"cpu: {platform.machine()}, without JAX"
    import jax

    # An array tells: a scope may have chosen another device than the first.
    return _name(next(iter(jax.device_put(np.float32(0)).devices())))


def _name(device: Any) -> str:
    return f"{device.platform}: {device.device_kind}"


def precision() -> dict[str, Any]:
    """The precision of products, by setting and as measured on the default device."""
    import jax
    import jax.numpy as jnp

    matmul = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]  # JAX adds its settings at run time
    return {
        "x64": jnp.asarray(1.0).dtype == "float64",
        "default_matmul_precision": str(matmul or "default"),
        "float32_product_error": product_error("float32"),
        "float64_product_error": product_error("float64"),
    }


def product_error(dtype: str, n: int = 128) -> float:
    """The relative error of a matrix product in `dtype` on the default device, in Frobenius norm.

    About 1e-7 is float32, 1e-3 is TF32 or bfloat16, and 1e-16 is float64.
    """
    import jax.numpy as jnp

    from unlazy.core.float64 import float64

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    with float64():
        product = np.asarray(jnp.asarray(a) @ jnp.asarray(b), np.longdouble)
    # Not np.linalg.norm: it knows no long doubles.
    return float(np.sqrt(((product - exact) ** 2).sum() / (exact**2).sum()))
