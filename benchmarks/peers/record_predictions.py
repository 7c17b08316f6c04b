# SPDX-License-Identifier: Apache-2.0
"""Records what `neural_tangents.predict` answers on small problems, for the tests of our dynamics.

It runs in the environment of neural-tangents that `environments.py` makes, and writes the file that
`tests/dynamics/test_neural_tangents.py` reads:

    .peers/neural-tangents/bin/python -m benchmarks.peers.record_predictions

There are five training points, two test points of other norms and two outputs. The kernels are
those of an infinitely wide network ("plain", one kernel for both outputs) and those of random
features ("coupled", of shape (n, n, c, c)).
"""

import collections
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")

import neural_tangents as nt  # noqa: E402  # pyright: ignore[reportMissingImports]
from neural_tangents import stax  # noqa: E402  # pyright: ignore[reportMissingImports]

FILE = Path(__file__).parents[2] / "tests" / "recorded" / "neural_tangents_predict.npz"
N, T, C = 5, 2, 2
RATE, MOMENTUM = 0.7, 0.9
TIMES = np.array([0.0, 0.5, 30.0, 1e4])
ODE_TIMES = np.array([0.0, 0.5, 30.0, 300.0])
REGULARIZED = {"none": (0.0, False), "relative": (0.1, False), "absolute": (0.05, True)}

Kernels = collections.namedtuple("Kernels", "nngp ntk")


def problem():
    """Inputs, labels, initial outputs, and the kernels of all points, training points first."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((N + T, 3)) * rng.uniform(0.5, 2.0, (N + T, 1))
    dense = {"W_std": 1.3, "b_std": 0.4}
    *_, kernel = stax.serial(
        *(stax.Dense(1, **dense), stax.Relu(), stax.Dense(1, **dense), stax.Relu()),
        stax.Dense(C, **dense),
    )
    plain = kernel(jnp.asarray(x), None, ("nngp", "ntk"))
    coupled = Kernels(*(_coupled(rng, size) for size in (30, 40)))
    kernels = {"plain": Kernels(plain.nngp, plain.ntk), "coupled": coupled}
    y, start = rng.standard_normal((N, C)), rng.standard_normal((N + T, C))
    return x, y, start, kernels


def _coupled(rng, size):
    J = rng.standard_normal((N + T, C, size)) / size**0.5
    return jnp.einsum("iap,jbp->ijab", J, J)


def part(kernels, rows, columns):
    return Kernels(*(kernel[rows][:, columns] for kernel in kernels))


TRAIN, TEST = slice(0, N), slice(N, N + T)


def squared(fx, y):
    return jnp.mean((fx - y) ** 2) / 2


def cross_entropy(fx, y):
    return -jnp.sum(jax.nn.log_softmax(fx) * y)


def classes(y):
    """Labels of a class each: that of the larger number."""
    return jnp.eye(C)[jnp.argmax(y, axis=1)]


def closed_forms(kernels, y, start, axes):
    """`gradient_descent_mse`: [regularisation, time (infinity last), point, output]."""
    K = part(kernels, TRAIN, TRAIN).ntk
    K_all = part(kernels, slice(None), TRAIN).ntk
    found = []
    for reg, absolute in REGULARIZED.values():
        predict = nt.predict.gradient_descent_mse(
            K, y, RATE, diag_reg=reg, diag_reg_absolute_scale=absolute, trace_axes=axes
        )
        # As it asks for where training points are wanted with regularisation.
        at_times = predict(TIMES, start[TRAIN], start, K_all)[1]
        at_last = predict(None, start[TRAIN], start, K_all)[1]
        found.append(np.concatenate([at_times, at_last[None]]))
    return np.array(found)


def integrated(kernels, y, start, axes):
    """`gradient_descent`: [loss, without or with momentum, time, point, output]."""
    K, K_test = part(kernels, TRAIN, TRAIN).ntk, part(kernels, TEST, TRAIN).ntk
    found = []
    for loss, labels in ((squared, y), (cross_entropy, classes(y))):
        for momentum in (None, MOMENTUM):
            predict = nt.predict.gradient_descent(loss, K, labels, RATE, momentum, axes)
            pair = predict(ODE_TIMES, start[TRAIN], start[TEST], K_test)
            found.append(np.concatenate(pair, axis=1))
    return np.array(found).reshape(2, 2, len(ODE_TIMES), N + T, C)


def ensembles(kernels, y, axes):
    """`gradient_descent_mse_ensemble`: mean and covariance, [regularisation, kernel, time, ...]."""

    def kernel(x1, x2, get, **_):
        spans = [slice(int(x[0]), int(x[-1]) + 1) for x in (x1, x1 if x2 is None else x2)]
        found = part(kernels, *spans)
        return getattr(found, get) if isinstance(get, str) else found

    points, means, covariances = np.arange(N + T), [], []
    for name in ("none", "relative"):
        predict = nt.predict.gradient_descent_mse_ensemble(
            kernel, points[TRAIN], y, RATE, REGULARIZED[name][0], trace_axes=axes
        )
        for get in ("nngp", "ntk"):
            at_times = predict(TIMES, points[TEST], get, compute_cov=True)
            at_last = predict(None, points[TEST], get, compute_cov=True)
            means.append(np.concatenate([at_times.mean, at_last.mean[None]]))
            spread = at_times.covariance, at_last.covariance[None]
            covariances.append(np.concatenate(spread))
    return [np.array(rows).reshape(2, 2, *rows[0].shape) for rows in (means, covariances)]


def posteriors(kernels, y, axes):
    """`gp_inference`: mean and covariance, [regularisation, kernel, ...]."""
    blocks = [part(kernels, *rows) for rows in ((TRAIN, TRAIN), (TEST, TRAIN), (TEST, TEST))]
    found = []
    for reg, absolute in REGULARIZED.values():
        predict = nt.predict.gp_inference(blocks[0], y, reg, absolute, axes)
        found += [predict(get, blocks[1], blocks[2]) for get in ("nngp", "ntk", "ntkgp")]
    moments = zip(*found, strict=True)
    return [np.array(rows).reshape(3, 3, *rows[0].shape) for rows in moments]


def rates(kernels, size):
    """`max_learning_rate` without and with momentum."""
    K = part(kernels, TRAIN, TRAIN).ntk
    return [nt.predict.max_learning_rate(K, size, momentum) for momentum in (0.0, MOMENTUM)]


def record():
    x, y, start, kernels = problem()
    versions = f"neural-tangents {nt.__version__}, jax {jax.__version__}, float64"
    found = {"source": f"{versions}; made by benchmarks/peers/record_predictions.py"}
    found |= {"x": x, "y": y, "start": start, "classes": classes(y)}
    found |= {"times": TIMES, "ode_times": ODE_TIMES, "rate": RATE, "momentum": MOMENTUM}
    found["regularized"] = np.array(list(REGULARIZED.values()))
    for form, axes, size in (("plain", (-1,), N * C), ("coupled", (), None)):
        mine = kernels[form]
        found |= {f"{form}/nngp": mine.nngp, f"{form}/ntk": mine.ntk}
        found[f"{form}/mse"] = closed_forms(mine, y, start, axes)
        found[f"{form}/ode"] = integrated(mine, y, start, axes)
        found[f"{form}/ensemble/mean"], found[f"{form}/ensemble/covariance"] = ensembles(
            mine, y, axes
        )
        found[f"{form}/posterior/mean"], found[f"{form}/posterior/covariance"] = posteriors(
            mine, y, axes
        )
        found[f"{form}/rates"] = np.array(rates(mine, size))
    return {name: np.asarray(value) for name, value in found.items()}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **record())  # pyright: ignore[reportArgumentType]  # names are ours
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")
