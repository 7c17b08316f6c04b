# SPDX-License-Identifier: Apache-2.0
"""Any function `f(params, x)` of JAX as the subject of a laziness report."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from unlazy.core.compiling import jit_network
from unlazy.core.jaxprs import Program
from unlazy.core.roles import Role, roles
from unlazy.core.trained import Trained, partition
from unlazy.kernels import empirical_ntk_by_layer
from unlazy.kernels.empirical.by_layer import layer_of, leaf_paths
from unlazy.kernels.empirical.conjugate import Found, find, last_layer, layer_inputs
from unlazy.kernels.empirical.layers import Layer, weight_matrix
from unlazy.kernels.empirical.model import (
    Apply,
    Options,
    Problem,
    Task,
    check_outputs,
    check_problem,
)
from unlazy.laziness.subjects.switches import active_units, find_switches
from unlazy.taylor import displacement, terms
from unlazy.taylor.movement import float64_if, is_wide

_ROWS = 256  # samples that go through the network at a time


class Projected(eqx.Module):
    """A network whose outputs are projected on directions."""

    f: Apply
    directions: Float[Array, "c k"]

    def __call__(self, params: PyTree, x: Array) -> Float[Array, "n k"]:
        """The projected outputs."""
        out = self.f(params, x)
        return out.reshape(x.shape[0], -1) @ self.directions.astype(out.dtype)


class JaxSubject:
    """A network `f(params, x)` under examination, as `subjects.Subject` describes it."""

    def __init__(
        self,
        f: Apply,
        params: PyTree,
        x: Any,
        *,
        trained: Trained = None,
        memory: int | float | None = None,
    ) -> None:
        """Trace the network.

        Args:
            f: the network.
            params: parameters in their structure.
            x: samples like those that will follow.
            trained: which parameters count.
            memory: bytes for temporary arrays of the kernels.
        """
        self.f, self.trained, self.memory = f, trained, memory
        problem = self._problem(params, x)
        with problem.precision():
            rows = problem.samples("x")
            like = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
            check_outputs(problem.task.model, problem.task.trained, like)
        self._layout = _layout(self._whole(params, x))

    @property
    def where(self) -> str:
        """Library and device in words."""
        return f"JAX on {jax.devices()[0].device_kind}"

    def _problem(self, params: PyTree, x: Any) -> Problem:
        return check_problem(self.f, params, {"x": x}, Options(self.trained), traced=True)

    @property
    def switches(self) -> list[str]:
        """The names of the ReLUs, in the order of use."""
        return self._layout.switches

    def samples(self, params: PyTree, x: Any) -> Array:
        """The samples as the network takes them, in the precision of its parameters."""
        problem = self._problem(params, x)
        with problem.precision():
            return problem.samples("x")

    def _whole(self, params: PyTree, x: Any) -> Problem:
        """The network with all its layers, whether they are trained or not."""
        return check_problem(self.f, params, {"x": x}, Options(None), traced=True)

    def outputs(self, params: PyTree, x: Any) -> Float[np.ndarray, "n c"]:
        """The outputs at all rows."""
        return _by_rows(self._problem(params, x), _outputs)

    def operations(self, params: PyTree, x: Any) -> float:
        """Multiplications and additions of a forward pass, per row."""
        problem = self._problem(params, x)
        with problem.precision():
            model, row = problem.task.model, problem.samples("x")[:1]
            lowered = jax.jit(lambda trained, x: model.batch(trained, x)).lower(
                problem.task.trained, row
            )
        found = lowered.cost_analysis() or {}
        least = 2.0 * sum(leaf.size for leaf in jax.tree.leaves(problem.task.trained))
        return max(float(found.get("flops", 0.0)), least)

    def weights(self, params: PyTree) -> dict[str, np.ndarray]:
        """The trained parameters by their paths."""
        with float64_if(is_wide(params)):
            chosen, _ = partition(params, self.trained)
            leaves = map(np.asarray, jax.tree.leaves(chosen))
            return dict(zip(leaf_paths(chosen), leaves, strict=True))

    def statistics(self, params: PyTree) -> dict[str, np.ndarray]:
        """The running statistics by their paths."""
        pairs = zip(leaf_paths(params), jax.tree.leaves(params), strict=True)
        found = zip(pairs, jax.tree.leaves(roles(params)), strict=True)
        return {path: np.asarray(leaf) for (path, leaf), role in found if role is Role.STATISTIC}

    def moved(self, start: PyTree, end: PyTree) -> PyTree:
        """The end, with all that is not trained as it is at the start.

        Statistics are the end's, unless other parameters moved too: they belong to those then.
        """
        ends = self._where_moving(start, end, lambda _, to: to, lambda one: one)
        found = zip(*map(jax.tree.leaves, (roles(end), end, ends)), strict=True)
        others = any(
            role is Role.PARAMETER and not np.array_equal(given, kept)
            for role, given, kept in found
        )
        if not others:
            return ends
        return self.with_statistics(ends, start)

    def with_statistics(self, start: PyTree, end: PyTree) -> PyTree:
        """The start, with the running statistics of the end."""

        def of(role: Role, one: Any, to: Any) -> Any:
            return to if role is Role.STATISTIC else one

        return jax.tree.map(of, roles(start), start, end)

    def _where_moving(
        self, start: PyTree, end: PyTree, moving: Callable[..., Any], else_: Callable[..., Any]
    ) -> PyTree:
        """A function of both where parameters are trained or statistics, else one of the start."""
        chosen, _ = partition(start, self.trained)
        return where_moving(start, end, chosen, moving, else_)

    def as_matrix(self, path: str, value: np.ndarray) -> Float[np.ndarray, "out in"] | None:
        """A weight as a matrix with one row per neuron."""
        layer = self._layout.layers.get(path)
        if layer is None:
            return None
        return np.asarray(weight_matrix(self._layout.program, layer, jnp.asarray(value)))

    def layer_kernels(
        self,
        params: PyTree,
        x: Any,
        directions: Float[np.ndarray, "c k"],
        *,
        sign: bool = False,
    ) -> dict[str, Float[np.ndarray, "n n"]]:
        """The tangent kernel of the projected outputs, summed over them, by layer."""
        c, k = directions.shape
        plain = c == k and np.array_equal(directions, np.eye(c))
        f = self.f if plain else Projected(self.f, jnp.asarray(directions))
        return empirical_ntk_by_layer(
            f,
            params,
            x,
            trained=self.trained,
            sign="both" if sign else None,
            memory=self.memory,
        )

    def taylor_terms(
        self, start: PyTree, end: PyTree, x: Any, order: int
    ) -> Float[np.ndarray, "{order}+1 n c"]:
        """The Taylor terms of the outputs; running statistics go along with the parameters."""
        problem = self._problem(start, x)

        def of(rows: Array) -> np.ndarray:
            return np.asarray(terms(self.f, start, delta, rows, order, at_kinks="jax"))

        with problem.precision():
            delta, samples = self._movement(start, end), problem.samples("x")
            parts = [of(samples[i:j]) for i, j in _blocks(len(samples))]
        return _joined(parts, len(samples), axis=1).reshape(order + 1, len(samples), -1)

    def _movement(self, start: PyTree, end: PyTree) -> PyTree:
        """The movement of the trained parameters and of the statistics; None elsewhere."""
        displacement(start, end)  # its checks name the leaf that does not fit
        by = lambda one, other: jnp.asarray(other) - jnp.asarray(one)  # noqa: E731
        return self._where_moving(start, end, by, lambda _: None)

    def active_units(self, params: PyTree, x: Any) -> dict[str, Bool[np.ndarray, "n units"]]:
        """Which units of every ReLU are active at each row."""
        problem = self._problem(params, x)
        return dict(zip(self._layout.switches, _by_rows(problem, active), strict=True))

    def last_features(self, params: PyTree, x: Any) -> Float[np.ndarray, "n k"]:
        """What the last layer is multiplied with, whether that layer is trained or not."""
        problem = self._whole(params, x)
        with problem.precision():
            rows = problem.samples("x")
            path = last_layer(problem.task, rows)
            return np.asarray(layer_inputs(problem.task, rows, path))


def where_moving(
    start: PyTree,
    end: PyTree,
    trained: PyTree,
    moving: Callable[..., Any],
    else_: Callable[..., Any],
) -> PyTree:
    """A function of both where `trained` has a parameter and at statistics, else of the start."""

    def of(role: Role | None, one: Any, other: Any, kept: Any) -> Any:
        moves = role is Role.STATISTIC or kept is not None
        return moving(one, other) if moves else else_(one)

    is_none = lambda leaf: leaf is None  # noqa: E731
    return jax.tree.map(of, roles(start), start, end, trained, is_leaf=is_none)


class _Layout(NamedTuple):
    program: Program
    layers: dict[str, Layer]  # of the weights that are matrices, by path
    switches: list[str]  # the names of the ReLUs


def _layout(problem: Problem) -> _Layout:
    with problem.precision():
        found = find(problem.task, problem.samples("x"))
    layers = {path: uses[0] for path, uses in found.layers.items()}
    return _Layout(found.program, layers, _switch_names(found))


def _by_rows(problem: Problem, function: Any) -> Any:
    """The function of some rows at a time, joined on the host."""
    with problem.precision():
        x, task = problem.samples("x"), problem.task
        parts = [jax.tree.map(np.asarray, function(task, x[i:j])) for i, j in _blocks(x.shape[0])]
    return jax.tree.map(lambda *arrays: _joined(arrays, x.shape[0]), *parts)


def _blocks(n: int) -> list[tuple[int, int]]:
    """Rows at a time; the last block overlaps the one before, so that all compile to one program.

    Samples of different sizes share the program too.
    """
    return [(min(i, max(n - _ROWS, 0)), min(i + _ROWS, n)) for i in range(0, n, _ROWS)]


def _joined(parts: Sequence[np.ndarray], n: int, axis: int = 0) -> np.ndarray:
    """The parts of `_blocks` as one array."""
    *whole, last = parts
    left = n - _ROWS * len(whole)
    return np.concatenate(
        [*whole, np.take(last, range(last.shape[axis] - left, last.shape[axis]), axis)], axis
    )


@jit_network
def _outputs(task: Task, x: Array) -> Float[Array, "n c"]:
    return task.model.batch(task.trained, x)


@jit_network
def active(task: Task, x: Array) -> list[Bool[Array, "n units"]]:
    """Per ReLU, which units are active at each row."""
    program, leaves = find(task, x).program, jax.tree.leaves(task.trained)
    switches = find_switches(program)

    def of(row: Array) -> list[Bool[Array, " units"]]:
        return active_units(switches, program.run([*leaves, row]))

    return jax.vmap(of)(x)


def _switch_names(found: Found) -> list[str]:
    """One name per ReLU: its number, and the layer whose outputs it takes in."""
    paths = {layer.step: path for path, layers in found.layers.items() for layer in layers}
    latest: dict[Any, int] = {}  # per value, the last layer that it depends on
    for k, step in enumerate(found.program.steps):
        before = max((latest.get(name, -1) for name in _names(step.operands)), default=-1)
        latest.update(dict.fromkeys(step.results, k if k in paths else before))
    names = []
    for number, switch in enumerate(find_switches(found.program), start=1):
        layer = paths.get(latest.get(switch.z, -1))
        names.append(f"relu {number}" + (f" after {layer_of(layer)}" if layer else ""))
    return names


def _names(operands: Any) -> list[Any]:
    return [name for name in operands if isinstance(name, int)]
