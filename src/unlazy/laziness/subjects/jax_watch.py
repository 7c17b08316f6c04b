# SPDX-License-Identifier: Apache-2.0
"""Any function `f(params, x)` of JAX, watched while it trains."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from unlazy.core.compiling import jit_network
from unlazy.core.current import current
from unlazy.core.float64 import float64
from unlazy.core.trained import partition
from unlazy.kernels.empirical.blockwise import recipe_of
from unlazy.kernels.empirical.by_layer import by_name, layer_names, leaf_kernels, leaf_paths
from unlazy.kernels.empirical.model import Model, Options, Task, check_problem, check_rowwise
from unlazy.kernels.empirical.ntk import survey
from unlazy.laziness.subjects.jax_subject import JaxSubject, Projected, active, where_moving
from unlazy.laziness.subjects.watch import Sight, Squares
from unlazy.taylor import terms
from unlazy.taylor.movement import float64_if, is_wide, matched


class JaxWatch:
    """A network `f(params, x)` and the start of its training, as `subjects.Watch` describes it.

    What `f` reads from its surroundings is read once, when the watch is made: a look traces nothing
    and compiles nothing.
    """

    def __init__(
        self,
        subject: JaxSubject,
        start: PyTree,
        x: Any,
        directions: Float[np.ndarray, "c k"],
        order: int,
    ) -> None:
        """Trace the network, and find out how much of its kernel fits the memory.

        Args:
            subject: the network.
            start: its parameters, which nobody else changes or donates.
            x: the samples to look at.
            directions: of the outputs, in the kernel.
            order: the last Taylor term.
        """
        self._start, self._trained, self._order = start, subject.trained, order
        self._wide = is_wide(start)
        like = jax.ShapeDtypeStruct((2, *np.shape(x)[1:]), subject.samples(start, x).dtype)
        with float64_if(self._wide):
            f = current(subject.f, start, like)
            projected = Projected(f, jnp.asarray(directions))
        options = Options(subject.trained, memory=subject.memory)
        self._problem = check_problem(projected, start, {"x": x}, options, traced=True)
        self._f, self._names = f, subject.switches
        with self._problem.precision():
            self._x = self._problem.samples("x")
            self._prepare()

    def _prepare(self) -> None:
        """Everything that is the same at each look."""
        task, x = self._problem.task, self._x
        self._paths, self._here = leaf_paths(task.trained), self._task(self._start, self._f)
        check = check_rowwise(task.model, task.trained, x)
        need = survey(task, x)
        self._block = max(1, need.block(self._problem.memory(need.whole(len(x)))))
        self._layers = layer_names(task, recipe_of(task, x))
        self._active = active(self._here, x)
        check()

    def _task(self, params: PyTree, f: Any) -> Task:
        trained, frozen = partition(params, self._trained)
        return self._problem.task._replace(model=Model(f, frozen), trained=trained)

    def squares(self, params: PyTree) -> dict[str, Squares]:
        """Per trained parameter how far it is from the start; nan where it is not finite."""
        with float64_if(self._wide):
            matched(self._start, params, "params", "params_start")
            now = jax.tree.leaves(partition(params, self._trained)[0])
        with float64():
            found = np.asarray(_squares(now, jax.tree.leaves(self._here.trained)))
        return {
            path: Squares(*map(float, two)) for path, two in zip(self._paths, found, strict=True)
        }

    def see(self, params: PyTree) -> Sight:
        """Look at the network at these parameters."""
        with self._problem.precision():
            kernel = self._task(params, self._problem.task.model.f)
            look = _look(
                self._task(params, self._f), self._here, self._x, self._active, self._order
            )
            leaves = leaf_kernels(kernel, self._x, self._block, None)
            outputs, terms, flips = jax.device_get(look)
        units = {name: on.size for name, on in zip(self._names, self._active, strict=True)}
        return Sight(
            kernels=by_name(leaves, self._layers),
            outputs=outputs.astype(np.float64),
            terms=terms.reshape(self._order + 1, *outputs.shape).astype(np.float64),
            flipped={name: int(flips[k]) / size for k, (name, size) in enumerate(units.items())},
            units=units,
        )


class _Look(NamedTuple):
    outputs: Float[Array, "n c"]
    terms: Float[Array, "orders n ..."]
    flips: Int[Array, " relus"]  # units that are not as at the start, over all rows


@jit_network
def _look(
    now: Task, start: Task, x: Array, before: list[Bool[Array, "n units"]], order: int
) -> _Look:
    begin, end = (eqx.combine(task.trained, task.model.frozen) for task in (start, now))
    delta = where_moving(begin, end, start.trained, lambda one, to: to - one, lambda _: None)
    found = terms(start.model.f, begin, delta, x, order, at_kinks="jax")
    flips = [jnp.sum(b != a) for b, a in zip(before, active(now, x), strict=True)]
    outputs = now.model.batch(now.trained, x)
    return _Look(outputs, found, jnp.stack(flips) if flips else jnp.zeros(0, jnp.int32))


@jax.jit
def _squares(now: list[Array], start: list[Array]) -> Float[Array, "leaves 2"]:
    """In float64, as a sum of a million squares in float32 would lose digits."""
    wide = [(a.astype(jnp.float64), b.astype(jnp.float64)) for a, b in zip(now, start, strict=True)]
    return jnp.stack([jnp.stack([jnp.sum((a - b) ** 2), jnp.sum(b**2)]) for a, b in wide])
