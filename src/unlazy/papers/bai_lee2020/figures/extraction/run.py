# SPDX-License-Identifier: Apache-2.0
"""The computation of the cells of the extraction figure."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy import data
from unlazy.activations import activation
from unlazy.experiments import CellResult, Progress
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.figures.exponents import rms, table
from unlazy.papers.bai_lee2020.figures.extraction.config import Extraction
from unlazy.papers.shared.settings import reproducible

# sin(t + .7): analytic, and no derivative of it is odd or even.
SIGMA = activation("sin", shift=-0.7)


@reproducible(x64=True)  # whatever the user has set: the same cell, the same numbers
def run(config: Extraction, *, seed: int, progress: Progress) -> CellResult:
    # The same inputs and initial weights for all forms and orders of a seed.
    key_x, key_nets = jr.split(jr.fold_in(jr.key(43), seed))
    x = data.sphere(config.n, config.inputs, key=key_x)
    rows = []
    for done, width in enumerate(config.widths, start=1):
        key_W, key_z = jr.split(jr.fold_in(key_nets, width))
        W0 = jr.normal(key_W, (width, config.inputs))
        sizes = _block if config.form == "block" else _sampled
        rows.append({k: float(v) for k, v in sizes(config, W0, x, key_z).items()})
        progress(done, len(config.widths))
    return CellResult({"width": np.array(config.widths), **table(rows)})


def movement(net: bai_lee2020.ExtractionNet) -> Float[Array, "m d"]:
    """Every group moves along (1.5, 1.5, 0, ..), by an amount of order m^(-1/2k)."""
    m, d = net.W0.shape
    direction = jnp.zeros(d).at[:2].set(1.5)
    return m ** (-1 / (2 * net.order)) * jnp.broadcast_to(direction, (m, d))


@functools.partial(jax.jit, static_argnums=0)
def _sampled(config: Extraction, W0, x, key: PRNGKeyArray) -> dict[str, Array]:
    """The rms over inputs and draws of the terms 1 to k + 1."""
    k, nodes = config.order, config.nodes or "chebyshev"
    make = functools.partial(bai_lee2020.ExtractionNet.sampled, SIGMA, W0, k, nodes=nodes)
    net = make(key=key)
    multipliers = jax.vmap(lambda k: make(key=k).multipliers)(jr.split(key, config.draws))

    def size(j: int) -> Array:
        # Only the multipliers are batched: sigma is evaluated once for all draws.
        def term(z: Float[Array, "m 2"]) -> Float[Array, " n"]:
            return eqx.tree_at(lambda n: n.multipliers, net, z).term(movement(net), x, j)

        return rms(jax.vmap(term)(multipliers))

    return {f"f{j}": size(j) for j in range(1, k + 2)}


@functools.partial(jax.jit, static_argnums=0)
def _block(config: Extraction, W0, x, key: PRNGKeyArray) -> dict[str, Array]:
    """The rms over inputs of the k-th term, of the rest, of the whole and of all lower terms."""
    del key  # nothing is random
    k = config.order
    net = bai_lee2020.ExtractionNet.block(SIGMA, W0, k)
    terms = [net.term(movement(net), x, j) for j in range(k + 1)]
    f = net(movement(net), x)
    lower = jnp.max(jnp.abs(jnp.stack(terms[:k])))
    return {f"f{k}": rms(terms[k]), "rest": rms(f - terms[k]), "f": rms(f), "lower": lower}
