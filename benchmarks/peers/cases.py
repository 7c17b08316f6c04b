# SPDX-License-Identifier: Apache-2.0
"""What is measured: inputs, who computes them, and the limits that we hold ourselves to."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.peers import grid_problem

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Entrant:
    """One implementation: a script `run_<library>`, its variant, and how often it is called.

    `hopeless` variants are left out unless asked for: several to hundreds of times as slow as the
    fastest of the same library, at up to 15 GB.
    """

    library: str
    variant: str = "default"
    rounds: int = 3
    calls: int = 5
    hopeless: bool = False
    same_answer: bool = True  # as ours; otherwise only its time counts

    @property
    def name(self) -> str:
        return self.library if self.variant == "default" else f"{self.library} {self.variant}"


OURS = Entrant("unlazy")


@dataclass(frozen=True)
class Case:
    """A computation that all entrants do on the same numbers.

    `at_least` bounds from below how many times faster ours is than the fastest variant of a
    library, `at_most` from above how many times as long as a library ours takes. Answers whose
    entries have names are shown side by side.
    """

    name: str
    about: str
    inputs: Callable[[np.random.Generator], Arrays]
    entrants: tuple[Entrant, ...]
    tolerance: float  # of the largest difference, relative to the largest entry
    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    entries: tuple[str, ...] = ()
    seed: int = 0


def _rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Rows of norm sqrt(d), the size that standardised data have."""
    x = rng.standard_normal((n, d))
    return x * math.sqrt(d) / np.linalg.norm(x, axis=1, keepdims=True)


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Gaussian with variance one over the fan-in, which is all axes but the last."""
    return rng.standard_normal(shape) / math.sqrt(math.prod(shape[:-1]))


def _single(arrays: Arrays) -> Arrays:
    return {name: value.astype(np.float32) for name, value in arrays.items()}


def _analytic32(rng: np.random.Generator) -> Arrays:
    return _single({"x": _rows(rng, 4000, 784)})


def _analytic64(rng: np.random.Generator) -> Arrays:
    return {"x": _rows(rng, 4000, 784)}


def _two_layer(rng: np.random.Generator) -> Arrays:
    n, d, m = 1000, 784, 2048
    return _single(
        {
            "x": _rows(rng, n, d),
            "W": rng.standard_normal((d, m)),
            "a": rng.standard_normal((m, 1)),
        }
    )


def _mlp(rng: np.random.Generator) -> Arrays:
    sizes = (784, 512, 512, 512, 10)
    arrays = {"x": _rows(rng, 200, sizes[0])}
    for layer, (d, m) in enumerate(itertools.pairwise(sizes), start=1):
        arrays[f"W{layer}"] = _weights(rng, d, m)
        arrays[f"b{layer}"] = 0.1 * rng.standard_normal(m)
    return _single(arrays)


def _cnn(rng: np.random.Generator) -> Arrays:
    side, channels, outputs = 14, 32, 10
    arrays = {
        "x": rng.standard_normal((100, side, side, 1)),
        "W1": _weights(rng, 3, 3, 1, channels),
        "W2": _weights(rng, 3, 3, channels, channels),
        "W3": _weights(rng, (side // 2) ** 2 * channels, outputs),
    }
    for layer, width in enumerate((channels, channels, outputs), start=1):
        arrays[f"b{layer}"] = 0.1 * rng.standard_normal(width)
    return _single(arrays)


def _fit_grid(rng: np.random.Generator) -> Arrays:
    from benchmarks.peers.unlazy_grid import orders  # here, because it takes JAX

    return {**grid_problem.arrays(rng), "orders": orders()}


def _mlp_rows(rng: np.random.Generator) -> Arrays:
    return {name: value.T if name[0] == "W" else value for name, value in _mlp(rng).items()}


def _taylor(rng: np.random.Generator) -> Arrays:
    """A network of 256 samples, and its parameters after a move of a tenth."""
    arrays = _mlp(rng)
    arrays["x"] = _rows(rng, 256, 784).astype(np.float32)
    for name in [name for name in arrays if name != "x"]:
        step = 0.1 * _weights(rng, *arrays[name].shape)
        arrays["new_" + name] = arrays[name] + step.astype(np.float32)
    return arrays


def _neural_tangents(variant: str, rounds: int = 3, calls: int = 5) -> Entrant:
    return Entrant("neural_tangents", variant, rounds, calls)


# Seconds and MB that neural-tangents took for what is marked hopeless, on two cores:
# two_layer: jacobian_contraction 29 s, 12400 MB; ntk_vector_products 35 s, 14100 MB.
# mlp: ntk_vector_products 20 s, 4050 MB; jacobian_contraction 11 s at a quarter of the rows.
# mlp_rows: structured_derivatives 4.5 s at a quarter of the rows.
# cnn: ntk_vector_products 22 s, 7500 MB.
def _hopeless(variant: str) -> Entrant:
    return Entrant("neural_tangents", variant, rounds=1, calls=1, hopeless=True)


CASES: tuple[Case, ...] = (
    *(
        Case(
            name=f"ntk_{dtype}",
            about=f"analytic NTK, ReLU, depth 1, n = 4000, d = 784, {dtype}",
            inputs=inputs,
            entrants=(OURS, Entrant("product", same_answer=False), Entrant("neural_tangents")),
            tolerance=tolerance,
            at_least={"neural_tangents": 2.0},
            at_most={"product": 1.3},
        )
        # As far as the answers can agree: on the diagonal neural-tangents takes the angle from the
        # cosine, which leaves it half of the digits.
        for dtype, inputs, tolerance in (
            ("float32", _analytic32, 1e-3),
            ("float64", _analytic64, 1e-7),
        )
    ),
    Case(
        name="two_layer",
        about="traced empirical NTK, 784-2048-1 ReLU, n = 1000",
        inputs=_two_layer,
        entrants=(
            OURS,
            _neural_tangents("structured_derivatives"),
            _hopeless("jacobian_contraction"),
            _hopeless("ntk_vector_products"),
            Entrant("torch", rounds=1, calls=1),
        ),
        tolerance=1e-4,
        at_least={"neural_tangents": 2.0, "torch": 20.0},
    ),
    Case(
        name="mlp",
        about="full empirical NTK, 784-512-512-512-10 tanh, n = 200",
        inputs=_mlp,
        entrants=(
            OURS,
            _neural_tangents("structured_derivatives"),
            _hopeless("jacobian_contraction"),
            _hopeless("ntk_vector_products"),
        ),
        tolerance=1e-4,
        at_least={"neural_tangents": 50.0},
    ),
    Case(
        name="mlp_rows",
        about="the same with one row of weights for each neuron, x @ W.T",
        inputs=_mlp_rows,
        entrants=(
            OURS,
            _neural_tangents("ntk_vector_products", rounds=1, calls=1),
            _hopeless("structured_derivatives"),
            _hopeless("jacobian_contraction"),
        ),
        tolerance=1e-4,
        at_least={"neural_tangents": 50.0},
    ),
    Case(
        name="cnn",
        about="full empirical NTK, two 3x3 convolutions of 32 channels, 14 x 14 inputs, n = 100",
        inputs=_cnn,
        entrants=(
            OURS,
            _neural_tangents("structured_derivatives"),
            _neural_tangents("jacobian_contraction", rounds=2, calls=2),
            _hopeless("ntk_vector_products"),
        ),
        tolerance=1e-4,
        at_least={"neural_tangents": 5.0},
    ),
    *(
        Case(
            name=f"taylor_expand_{order}",
            about=f"Taylor model of order {order}, 784-512-512-512-10 tanh, n = 256",
            inputs=_taylor,
            entrants=(Entrant("unlazy", calls=40), Entrant("neural_tangents", calls=40)),
            tolerance=1e-4,
            # Both are bound by the same products, some milliseconds: a median needs many calls.
            at_least={"neural_tangents": 1.0},
        )
        for order in range(1, 7)
    ),
    Case(
        name="fit_grid",
        about="156 lanes of SGD, three-layer ResNet, m = 100, n = 400, 200 epochs, and compiling",
        inputs=_fit_grid,
        entrants=(OURS, Entrant("torch", rounds=1, calls=0), Entrant("torch", "one_thread", 1, 0)),
        # Of the losses at the end, at most 1: at the largest rates rounding grows over 1600 steps.
        tolerance=0.05,
        at_least={"torch": 12.0},
        entries=tuple(f"rate {lr:g}, decay {wd:g}" for lr, wd in grid_problem.LANES),
    ),
)
