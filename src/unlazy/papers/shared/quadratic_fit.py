# SPDX-License-Identifier: Apache-2.0
"""A movement built by hand: its norm, and its quadratic term against the target."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, check_finite, check_inputs
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, linear_term
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.start_scales import check_start_scale, squares

_ENTRIES = 2**24  # of the pre-activations held at a time: 128 MB in float64


class QuadraticFit(eqx.Module):
    r"""A movement whose quadratic Taylor term is a given function, up to the width.

    `dW` is in float64; with x64 off JAX would round it in the next operation: work under
    `with jax.enable_x64(True)`, or on `np.asarray(fit.dW)`. Without points the errors are nan.
    """

    dW: Float64[Array, "m d"]
    norm_2_4: float  # ||dW||_{2,4}
    norm_limit: float  # the limit of norm_2_4 as the width grows
    norm_bound: float  # the paper's bound on it, or, where it gives none, the limit
    max_error: float  # of f_Q at the points given
    rms_error: float
    outputs: Float64[np.ndarray, " n"]  # f_Q at the points

    @property
    def holds(self) -> bool:
        """Whether the norm is within its bound, up to rounding."""
        return self.norm_2_4 <= self.norm_bound * (1 + 1e-9)


def report(
    net: TwoLayer,
    params0: TwoLayerParams,
    dW: Float64[np.ndarray, "m d"],
    target,
    x: Inputs | None,
    *,
    limit: float,
    bound: float,
) -> QuadraticFit:
    """The fit with its numbers; `target` is called on the float64 rows of `x`."""
    with float64():
        movement = jnp.asarray(dW, jnp.float64)
    norm = float(np.sum(np.sum(dW**2, axis=1) ** 2)) ** 0.25
    if x is None:
        return QuadraticFit(movement, norm, limit, bound, math.nan, math.nan, np.zeros(0))
    rows = np.asarray(x, np.float64)
    outputs = _outputs(net, params0, dW, rows)
    error = outputs - target(rows)
    return QuadraticFit(
        *(movement, norm, limit, bound),
        max_error=float(np.abs(error).max()),
        rms_error=float(np.sqrt(np.mean(error**2))),
        outputs=outputs,
    )


def _outputs(net: TwoLayer, params0: TwoLayerParams, dW, x) -> Float64[np.ndarray, " n"]:
    """f_Q in float64, samples in blocks."""
    block = max(1, _ENTRIES // net.width)
    with float64():
        W0, W = (jnp.asarray(v, jnp.float64) for v in (params0.W, dW))
        parts = [
            np.asarray(_quadratic(net, W0, W, jnp.asarray(x[k : k + block])))
            for k in range(0, len(x), block)
        ]
    return np.concatenate(parts)


@jax.jit
def _quadratic(net: TwoLayer, W0, W, x) -> Float64[Array, " n"]:
    half = net.width // 2
    squares = jnp.matmul(x, W.T, precision=jax.lax.Precision.HIGHEST) ** 2
    first = TwoLayerParams(W=W0[:half], a=jnp.ones(half, W0.dtype))
    T = coefficients(net.activation, first, x, 2)
    # f_Q is linear in the squares; those of twins are subtracted first, where they cancel.
    return linear_term(T, squares[:, :half] - squares[:, half:], width=net.width) / 2


def check_start(net: TwoLayer, params0: TwoLayerParams, x: Inputs | None) -> float:
    """Raise unless this is a symmetric start of a relu3 network; returns the radius of its inputs.

    A start scaled by kappa is for inputs of norm 1/kappa.
    """
    if net.activation.name != "relu3" or net.activation.shift:
        raise ValueError(
            f"`net` must have activation='relu3', got activation={net.activation.name!r}"
            f"{' with a shift' if net.activation.shift else ''}. The construction is for "
            "max(z, 0)^3/6; for others see papers.bai_lee2020.ExtractionNet.power."
        )
    check_twins(net, params0, "symmetric")
    check_start_scale(
        squares(params0.W[: net.width // 2]),  # the other half is the same
        net.init_scale,
        "params0.W",
        formula="init_scale",
        advice="Make the parameters with `init` of this very network, before any training.",
    )
    radius = 1 / net.init_scale
    if x is not None:
        check_norms(x, net.inputs, radius, "1/init_scale")
    return radius


def check_twins(net: TwoLayer, params0: TwoLayerParams, init: str) -> None:
    """Raise unless each neuron of the first half, of output +1, has a twin of -1 in the second."""
    half = net.width // 2
    W, a = np.asarray(params0.W), np.asarray(params0.a)
    signs = np.repeat([1.0, -1.0], half)
    same = W.shape == (net.width, net.inputs) and a.shape == (net.width,) and net.width % 2 == 0
    if not (same and np.array_equal(W[:half], W[half:]) and np.array_equal(a, signs)):
        raise ValueError(
            f"`params0` must be a start of `net` with init={init!r}: twins of the same weights, "
            f"outputs +1 in the first half and -1 in the second, got params0.W.shape={W.shape} "
            f"without them. Make the network with init={init!r} and its parameters with init."
        )
    check_finite(params0.W, "params0.W")


def check_norms(x: Inputs, d: int, radius: float, formula: str) -> None:
    """Raise unless all rows have that norm; `formula` says where it comes from."""
    check_inputs(x)
    if np.shape(x)[1] != d:
        raise ValueError(f"`x` must have {d} columns, got x.shape={np.shape(x)}.")
    norms = np.linalg.norm(np.asarray(x, np.float64), axis=1)
    worst = int(np.argmax(np.abs(norms / radius - 1)))
    if abs(norms[worst] / radius - 1) > 1e-5:
        raise ValueError(
            f"`x` must have rows of norm {formula} = {radius:.6g}, got a norm of "
            f"{norms[worst]:.6g} in row {worst}. Make the network with another init_scale, or "
            "rescale the rows."
        )


def checked_terms(
    net: TwoLayer, alphas, betas, powers
) -> list[tuple[float, Float64[np.ndarray, " d"], int]]:
    """Factor, direction and power of each summand; raise unless each can have a pair of twins."""
    pairs = net.width // 2
    if not len(alphas) == len(betas) == len(powers) or not 1 <= len(alphas) <= pairs:
        raise ValueError(
            "`alphas`, `betas` and `powers` must be as many, from 1 to the number of pairs "
            f"{pairs}, got {len(alphas)}, {len(betas)} and {len(powers)}."
        )
    check_finite(as_array(alphas, "alphas"), "alphas")
    return [
        (float(alpha), checked_direction(beta, net.inputs, f"betas[{q}]"), int(power))
        for q, (alpha, beta, power) in enumerate(zip(alphas, betas, powers, strict=True))
    ]


def checked_direction(
    beta: Float[Array | np.ndarray, " d"], d: int, name: str = "beta"
) -> Float64[np.ndarray, " d"]:
    """Raise unless `beta` is a direction among d inputs."""
    check_finite(beta, name)
    direction = np.asarray(beta, np.float64)
    if direction.shape != (d,) or not direction.any():
        raise ValueError(
            f"`{name}` must be a nonzero vector of shape ({d},), got {name}.shape={direction.shape}"
            f"{' with zeros only' if direction.shape == (d,) else ''}."
        )
    return direction
