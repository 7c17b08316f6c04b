# SPDX-License-Identifier: Apache-2.0
"""Good and harmful directions of a two-layer network, and the regularisers made of them."""

import dataclasses
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import MOST_IN_TABLE, check_count, check_finite, check_inputs, check_name
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.good_directions.covariance import sphere_covariance
from unlazy.escape.good_directions.linear_term import LinearTerm
from unlazy.escape.good_directions.projectors import (
    Projector,
    SampleProjector,
    SphereProjector,
    decompose_sphere,
    leading,
)
from unlazy.escape.good_directions.spectra import SpectralBlocks, spectral_blocks, spectral_gap
from unlazy.escape.good_directions.twins import Fold, are_twins
from unlazy.escape.penalty import regularizer
from unlazy.kernels import taylor_kernel
from unlazy.linalg import eigh
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.checking import check_owner, check_rows
from unlazy.special import generic_shift, harmonic_count

Covariance = Literal["data", "unlabelled", "exact"]
Inputs = Float[Array | np.ndarray, "n d"]
Movement = Float[Array | np.ndarray, "m d"]


class Directions(eqx.Module):
    r"""The leading directions of the tangent features at the start, and all others.

    `low` projects a movement on the `rank` leading directions, in which the linear term learns,
    `high` on the rest, in which it memorises. With $P_{\le k}$, $P_{>k}$ these projectors,

    $$R_1 = \mathbb E f_L(x; P_{>k} W)^2, \qquad R_2 = \mathbb E f_L(x; P_{\le k} W)^2, \qquad
    R_3 = \frac1n \sum_i f_L(x_i; P_{>k} W)^2, \qquad R_4 = \|W\|_{2,4}^8.$$

    `covariance` names the distribution of the projectors and of the expectations in R1 and R2:
    "data", the points x themselves (then R1 = R3); "unlabelled", other points; "exact", the uniform
    distribution on the sphere. R3 is always over x. All are functions of the movement that JAX
    compiles and differentiates, in its dtype; the eigenvectors are computed in float64.

    Source: NB-14 and NB-15, arXiv:2206.03688.
    """

    term: LinearTerm  # the linear term at x
    projector: Projector
    carry: Float64[np.ndarray, "n r"]  # values at x of the directions with unit coordinates
    spectrum: Float64[np.ndarray, " p"]  # of the covariance, largest first
    net: TwoLayer = eqx.field(static=True)
    params: TwoLayerParams
    covariance: str = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    degree: int | None = eqx.field(static=True)

    @entry
    def low(self, W: Movement) -> Float[Array, "m d"]:
        """The part of a movement in the leading directions."""
        return self.projector.movement(self.projector.coordinates(self.term.as_movement(W)))

    @entry
    def high(self, W: Movement) -> Float[Array, "m d"]:
        """The rest of the movement."""
        return self.term.as_movement(W) - self.low(W)

    @entry
    def low_values(self, W: Movement, x: Inputs) -> Float[Array, " n"]:
        """The linear term of the low part, at any points."""
        return self._term(x)(self.low(W))

    @entry
    def high_values(self, W: Movement, x: Inputs) -> Float[Array, " n"]:
        """The linear term of the high part, at any points."""
        return self._term(x)(self.high(W))

    @entry
    def r1(self, W: Movement) -> Float[Array, ""]:
        """R1, the energy of the high part under the distribution that `covariance` names."""
        return self.projector.energies(self.term.as_movement(W)).high

    @entry
    def r2(self, W: Movement) -> Float[Array, ""]:
        """R2, the energy of the low part under the distribution that `covariance` names."""
        return self.projector.energies(self.term.as_movement(W)).low

    @entry
    def r3(self, W: Movement) -> Float[Array, ""]:
        """R3, the mean square over x of the linear term of the high part."""
        W = self.term.as_movement(W)
        f, q = self.term(W), self.projector.coordinates(W)
        low = jnp.matmul(jnp.asarray(self.carry, f.dtype), q, precision=jax.lax.Precision.HIGHEST)
        return jnp.mean((f - low) ** 2)

    @entry
    def r4(self, W: Movement) -> Float[Array, ""]:
        """R4, the eighth power of the (2, 4) norm: `regularizer`."""
        return regularizer(self.term.as_movement(W))

    @property
    def blocks(self) -> SpectralBlocks:
        """The three blocks of the spectrum, for directions made by `degree`."""
        if self.degree is None:
            raise ValueError("`degree` must be given to `directions` for its blocks, got None.")
        blocks = spectral_blocks(self.spectrum, self.net.inputs, self.degree)
        if not isinstance(self.projector, SphereProjector):
            return blocks
        covariance, edge = self.projector.covariance, blocks.edges[-1]
        if len(self.spectrum) == covariance.units.size:
            return blocks
        # Of a large covariance only the leading eigenvalues and the sum of all are known.
        rest = covariance.trace() - float(np.sum(self.spectrum[:edge]))
        return dataclasses.replace(blocks, tail=rest / (covariance.units.size - edge))

    def _term(self, x: Inputs) -> LinearTerm:
        check_inputs(x, allow_zero_rows=True)
        check_rows(jnp.asarray(x), self.net.inputs)
        return LinearTerm.at(self.net, self.params, x, self.term.folding)


@entry
def directions(
    net: TwoLayer,
    params: TwoLayerParams,
    x: Inputs,
    degree: int | None = None,
    *,
    rank: int | None = None,
    covariance: Covariance = "data",
    unlabelled: Float[Array | np.ndarray, "q d"] | None = None,
) -> Directions:
    r"""The directions in which the hidden layer learns, and those in which it overfits.

    The first $n_k$ eigenvectors of the covariance of the tangent features carry polynomials of
    degree at most k; in all other directions the linear term memorises. With a penalty on `r3` the
    linear term learns the low-degree part alone and leaves the rest to the quadratic term. The cost
    is $O(n^2(m + d) + n^3)$; the features, n by m d, are never formed.

    Source: NB-6 to NB-15, arXiv:2206.03688.

    Args:
        net: a two-layer network.
        params: where it starts. Twins, as paired inits have them, halve the work.
        x: training inputs, one per row; for "exact" on a sphere.
        degree: k, which makes the rank $n_k$ (`special.harmonic_count`): meaningful for inputs
            uniform on a sphere.
        rank: number of leading directions, instead of `degree`, for inputs of any distribution.
            With neither, the largest gap of the spectrum decides.
        covariance: whose eigenvectors. "data": of x, as in the paper's Figure 1. "unlabelled": of
            other points. "exact": of the uniform distribution on the sphere of the inputs.
        unlabelled: these other points; twenty times the rank is a good number.

    Raises:
        ValueError: there are no more points than directions, where R3 would be identically zero; at
            the activation's shift the features do not see a degree up to k; inputs or weights are
            off the sphere for "exact"; shapes do not fit.

    Example:
        >>> import unlazy as ul
        >>> net = TwoLayer(5, 40, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> params = net.init(key=jax.random.key(0))
        >>> x = ul.data.sphere(60, 5, radius=5**0.5, key=jax.random.key(1))
        >>> geometry = directions(net, params, x, degree=1)
        >>> W = jax.random.normal(jax.random.key(2), (40, 5))
        >>> geometry.rank, bool(abs(geometry.r3(geometry.low(W))) < 1e-9)
        (6, True)
    """
    _check(net, params, x, covariance, unlabelled)
    rank = _rank(net, params, x, degree, rank)
    folding = Fold(are_twins(params))
    term = LinearTerm.at(net, params, x, folding)
    if covariance == "exact":
        return _exact(net, params, term, rank, degree)
    name, sample = ("x", x) if unlabelled is None else ("unlabelled", unlabelled)
    _check_points(1 if rank is None else rank, len(sample), name)
    eigen = eigh(taylor_kernel(net, params, sample, order=1))
    squares = np.maximum(eigen.values, 0.0)
    spectrum = squares / len(sample)
    rank = spectral_gap(spectrum) if rank is None else rank
    U, squares = leading(squares, eigen.vectors, rank), squares[:rank]
    own, carry = term, U  # K U / s^2 is U on the sample itself
    if unlabelled is not None:
        own = LinearTerm.at(net, params, unlabelled, folding)
        carry = np.asarray(taylor_kernel(net, params, x, unlabelled, order=1)) @ (U / squares)
    projector = SampleProjector(own, U, squares)
    return Directions(term, projector, carry, spectrum, net, params, covariance, rank, degree)


def _exact(net, params, term: LinearTerm, rank: int | None, degree: int | None) -> Directions:
    radius = _radius(term.x)
    covariance = sphere_covariance(net, params, radius=radius)
    values, vectors = decompose_sphere(covariance, rank)
    rank = spectral_gap(values) if rank is None else rank
    _check_points(rank, len(values), "params")
    V = leading(values, vectors, rank)
    with float64():
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
        values_at = LinearTerm.at(net, wide, term.x, term.folding)
        shaped = jnp.asarray(V).T.reshape(rank, *covariance.units.shape)
        carry = np.asarray(jax.lax.map(lambda u: values_at(covariance.movement(u)), shaped)).T
    projector = SphereProjector(covariance, V, values[:rank])
    return Directions(term, projector, carry, values, net, params, "exact", rank, degree)


def _rank(net, params, x, degree: int | None, rank: int | None) -> int | None:
    if rank is not None:
        check_count(rank, "rank")
        if degree is not None:
            raise ValueError(
                f"`rank` must be None where `degree` sets it, got rank={rank} and degree={degree}. "
                "Give one of them."
            )
        return rank
    if degree is None:
        return None
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    _check_shift(net, params, x, degree)
    return harmonic_count(net.inputs, degree)


def _check_shift(net: TwoLayer, params: TwoLayerParams, x: Inputs, degree: int) -> None:
    """Raise if a coefficient vanishes that the first n_k directions need."""
    radius = np.mean(np.linalg.norm(np.asarray(x, np.float64), axis=1))
    size = np.mean(np.linalg.norm(np.asarray(params.W, np.float64), axis=1))
    report = generic_shift(
        net.activation, net.inputs, degree, derivatives=(1,), scale=float(radius * size)
    )
    if report.is_generic:
        return
    lost = ", ".join(str(one.degree) for one in report.vanishing)
    hint = "" if report.suggested is None else f"Shift it by {report.suggested:+g}, or pass"
    raise ValueError(
        f"`net.activation` must have a slope with parts of every degree needed for degree={degree},"
        f" got none of degree {lost}, so that the leading directions are not those of the "
        f"low-degree polynomials. {hint or 'Pass'} rank={harmonic_count(net.inputs, degree)} "
        "instead of degree to take that many nevertheless."
    )


def _check(net, params, x, covariance: str, unlabelled: Any) -> None:
    check_name(covariance, get_args(Covariance), "covariance")
    check_owner(params, {"W": (net.width, net.inputs), "a": (net.width,)})
    check_finite(params.W, "params.W")
    check_finite(params.a, "params.a")
    points = {"x": x} if unlabelled is None else {"x": x, "unlabelled": unlabelled}
    for name, rows in points.items():
        check_inputs(rows, name, allow_zero_rows=True)
        check_rows(jnp.asarray(rows), net.inputs)
    if (covariance == "unlabelled") != (unlabelled is not None):
        raise ValueError(
            "`unlabelled` must be points for covariance='unlabelled' and None for others, got "
            f"covariance={covariance!r} and unlabelled "
            f"{'None' if unlabelled is None else 'of shape ' + str(np.shape(unlabelled))}."
        )


def _check_points(rank: int, count: int, name: str) -> None:
    if count > rank:
        return
    what = "parameters" if name == "params" else "rows"
    raise ValueError(
        f"`{name}` must have more {what} than there are leading directions, {rank}, got {count}: "
        "nothing would be left outside of them, and R3 would be identically 0. "
        "Use more, or a lower degree."
    )


def _radius(x: Inputs) -> float:
    norms = np.linalg.norm(np.asarray(x, np.float64), axis=1)
    if norms.max() - norms.min() > 1e-4 * norms.max():
        raise ValueError(
            "`x` must lie on a sphere for the exact covariance, got norms from "
            f"{norms.min():.4g} to {norms.max():.4g}. Use covariance='data' or 'unlabelled'."
        )
    return float(norms.mean())
