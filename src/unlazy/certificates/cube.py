# SPDX-License-Identifier: Apache-2.0
"""The best risk of a kernel or a feature map on a cube, for all parity targets at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.certificates.samples import check_degree, cube_sample, repeated_rows
from unlazy.certificates.span_risks import MARGIN, NoisySpan, risk_bounds
from unlazy.certificates.verdicts import CubeCertificate, check_target
from unlazy.core.checks import as_array, check_count, check_finite, check_inputs, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.data import corners
from unlazy.linalg import column_space
from unlazy.special import subset_masks, subsets, walsh_hadamard

_ENTRIES = 2**28  # of the table of functions on the cube, 2 GB
_LISTED = 16  # coordinates whose corners are listed at a time: all corners of 24 take 3.2 GB
_ARITHMETIC = 16 * 2.0**-52  # relative backward error of our own factorisations
_CUT = 1e-9  # of the singular values of the parts of one degree, which are at most 1
_PSD = 1e-8  # a negative eigenvalue this small, relative to the largest, is rounding


@entry
def kernel(
    kernel: Callable[..., Any],
    x: Float[Array | np.ndarray, "n d"],
    *,
    degree: int,
    alpha: int | float = 0.3,
    threshold: int | float = 1 / 16,
    others: Float[Array | np.ndarray, "q e"] | None = None,
    weights: Float[Array | np.ndarray, " q"] | None = None,
    averaged: bool = False,
    accuracy: int | float = 1e-14,
    dimension: int | None = None,
) -> CubeCertificate:
    r"""The least risk that a kernel method on a sample can reach, whatever its weights.

    For every set S of k coordinates and every $i \in S$, over inputs uniform on the cube,

    $$R(S, i) = \min_{w} \mathbb E\Big( x_i + \alpha \chi_S(x) - \sum_n w_n K(x, x_n) \Big)^2
    = 1 + \alpha^2 - (P_{ii} + 2\alpha P_{iS} + \alpha^2 P_{SS})$$

    with P the projector onto the span of the $K(\cdot, x_n)$ in the basis of parities. The cost is
    $O(2^d N^2)$ for all targets at once: d = 16 and N = 100 take a second or two. For kernels that
    are functions of $\langle x, x'\rangle$, `certificates.dot_product` takes any d.

    The other coordinates of the inputs, if any, are independent of the cube and take finitely many
    values `others` with probabilities `weights`. The risk is then under the law of all coordinates,
    and is at least the `averaged` one, of the functions averaged over the others.

    The values of the kernel are known up to `accuracy`. The result bounds R on both sides for every
    kernel within this distance of the values; each target is not learnt, learnt or undecided. A
    direction of the span whose singular value is below the error may point anywhere, and a learner
    with large weights may use it: with one such direction no target is certainly not learnt. Smooth
    kernels of a large bandwidth have many, and so have functions that depend on each other, such as
    a cubic kernel on more points than there are cubic polynomials. For these, pass the `dimension`
    that the functions span.

    Source: RN-21, RN-22 and RN-25, arXiv:1905.10337 Theorem 2, Lemma D.1 and Remark D.3.

    Args:
        kernel: `kernel(x1, x2)` gives the (n1, n2) matrix in float64, NumPy or JAX; with options,
            a `functools.partial`, such as `partial(kernels.gaussian, bandwidth=d)`.
        x: the sample: each row is a corner of one cube, followed by the other coordinates, if any.
        degree: k, at least 2.
        alpha: the size of the parity of degree k in the targets.
        threshold: t; a target is learnt when some output has a risk of at most $t\alpha^2$.
        others: values of the coordinates that are not on the cube, one per row.
        weights: their probabilities; None means equal ones.
        averaged: bound the risk through the functions averaged over `others`.
        accuracy: the largest error of a value $K(x, x_n)$, relative to the largest one for that
            $x_n$. The kernels of this library have at most 2e-15; values that were computed in
            float32 or by sampling need a larger one.
        dimension: the most dimensions that the $K(\cdot, x_n)$ can span, by mathematics: 176 for a
            cubic kernel of ten coordinates. None means as many as there are different points.

    Example:
        >>> import functools, jax, unlazy as ul
        >>> x = ul.data.cube(30, 8, key=jax.random.key(0))
        >>> kernel = functools.partial(ul.kernels.tangent, layers=3)
        >>> print(ul.certificates.kernel(kernel, x, degree=4).fraction_bad)
        1.0
    """
    check_target(alpha, threshold)
    _check_knowledge(accuracy, dimension)
    law = _law(others, weights, averaged)
    x = np.asarray(x, np.float64)
    check_inputs(x, allow_zero_rows=True)
    on_cube = x.shape[1] - law.values.shape[1]
    if on_cube < 1:
        raise ValueError(
            f"`x` must have columns on the cube before the {law.values.shape[1]} of `others`, "
            f"got x.shape={x.shape}."
        )
    _, scale = cube_sample(x[:, :on_cube])
    check_degree(degree, on_cube)
    if not _is_enumerable(on_cube, len(law.values) * len(x)):
        raise ValueError(
            "`x` must have few enough coordinates to list all corners, at most 2^28 values of "
            f"functions, got d={on_cube} and {len(x)} functions at {len(law.values)} values of the "
            "others. Call certificates.dot_product, which lists nothing and holds for every kernel "
            "that is a function of the inner product."
        )
    _check_psd(kernel, x)
    redundant = repeated_rows(x, antipodal=False)
    kept = np.delete(x, redundant[:, 0], axis=0)
    table = _table(lambda rows: kernel(rows, kept), "kernel", on_cube, scale, law)
    span = _fourier(table, law, float(accuracy), dimension)
    return _certificate(span, on_cube, len(x), degree, alpha, threshold, redundant)


@entry
def features(
    features: Callable[[Any], Any],
    inputs: int,
    *,
    degree: int,
    alpha: int | float = 0.3,
    threshold: int | float = 1 / 16,
    scale: int | float = 1.0,
    accuracy: int | float = 1e-14,
    dimension: int | None = None,
) -> CubeCertificate:
    r"""The least risk of linear regression on a feature map, whatever its weights and samples.

    This is `certificates.kernel` for the span of D features instead of the $K(\cdot, x_n)$, for
    infinitely many samples, too. `features(x)` gives the (n, D) matrix in float64 for x of shape
    (n, `inputs`) with entries of size `scale`; the other arguments are those of
    `certificates.kernel`. A feature that is zero at every corner counts as zero.

    Source: RN-21 and RN-48, arXiv:1905.10337 Theorem 3.

    Example:
        >>> W = np.random.default_rng(0).standard_normal((8, 40))
        >>> found = features(lambda x: np.maximum(x @ W, 0), 8, degree=3)
        >>> print(found.fraction_bad, found.counting_bound < len(found.sets))
        1.0 True
    """
    check_target(alpha, threshold)
    _check_knowledge(accuracy, dimension)
    check_count(inputs, "inputs")
    check_positive(scale, "scale")
    check_degree(degree, inputs)
    _check_features(features, inputs, float(scale))
    law = _law(None, None, False)
    table = _table(features, "features", inputs, float(scale), law)
    span = _fourier(table, law, float(accuracy), dimension)
    none = np.zeros((0, 2), int)
    return _certificate(span, inputs, table.shape[2], degree, alpha, threshold, none)


class _Law(NamedTuple):
    """The values and probabilities of the coordinates that are not on the cube."""

    values: Float64[np.ndarray, "q e"]
    weights: Float64[np.ndarray, " q"]
    averaged: bool


def _law(others: Any, weights: Any, averaged: bool) -> _Law:
    if others is None:
        if weights is not None:
            raise ValueError(
                f"`weights` must be None without `others`, whose probabilities they are, "
                f"got weights={weights}."
            )
        return _Law(np.zeros((1, 0)), np.ones(1), False)
    values = np.asarray(as_array(others, "others"), np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"`others` must have shape (q, e), got others.shape={values.shape}.")
    check_finite(values, "others")
    p = np.full(len(values), 1.0) if weights is None else np.asarray(weights, np.float64)
    if p.shape != (len(values),) or not np.all(p >= 0) or not 0 < np.sum(p) < np.inf:
        raise ValueError(
            f"`weights` must be {len(values)} probabilities, one per row of others, got {weights}."
        )
    return _Law(values, p / np.sum(p), averaged)


def _check_knowledge(accuracy: int | float, dimension: int | None) -> None:
    check_positive(accuracy, "accuracy")
    if dimension is not None:
        check_count(dimension, "dimension", least=0)


def _is_enumerable(d: int, values: int) -> bool:
    """Whether a table of this many values at each corner fits in memory."""
    return d <= 24 and 2**d * values <= _ENTRIES


def _check_features(features: Callable[[Any], Any], inputs: int, scale: float) -> None:
    """Raise unless the features at all corners fit in memory; one row tells how many they are."""
    if not _is_enumerable(inputs, 1):
        raise ValueError(f"`inputs` must be at most 24 to list all corners, got inputs={inputs}.")
    count = _values(features, (np.full((1, inputs), scale),), "features", (1, None)).shape[1]
    if not _is_enumerable(inputs, count):
        raise ValueError(
            "`inputs` and `features` must be few enough to list all features at all corners, at "
            f"most 2^28 values, got inputs={inputs} and {count} features: 2^{inputs} times "
            f"{count} values. With that many inputs, {2**28 // 2**inputs} features are the most."
        )


def _check_psd(kernel: Callable[..., Any], x: Float64[np.ndarray, "n d"]) -> None:
    gram = _values(kernel, (x, x), "kernel", (len(x), len(x)))
    values = np.linalg.eigvalsh((gram + gram.T) / 2)[::-1]
    gap = float(np.max(np.abs(gram - gram.T)))
    if values[-1] < -_PSD * values[0] or gap > _PSD * np.max(np.abs(gram)):
        raise ValueError(
            "`kernel` must be symmetric and positive semi-definite, got a smallest eigenvalue of "
            f"{values[-1]:.3g} on `x`, where the largest is {values[0]:.3g}, and an asymmetry of "
            f"{gap:.3g}. Functions of any kind have certificates.features."
        )


def _table(
    functions: Callable[[Any], Any], name: str, d: int, scale: float, law: _Law
) -> Float64[np.ndarray, "n q c"]:
    """Values of the functions at the corners, for each value of the other coordinates."""
    low = min(d, _LISTED)
    inner = corners(low, scale=scale)
    outer = corners(d - low, scale=scale) if d > low else np.zeros((1, 0))

    def at(behind: Float64[np.ndarray, " e"]) -> Float64[np.ndarray, "n c"]:
        rows = np.concatenate([inner, np.tile(behind, (len(inner), 1))], axis=1)
        return _values(functions, (rows,), name, (len(rows), None))

    parts = [
        np.stack([at(np.concatenate([signs, value])) for value in law.values], axis=1)
        for signs in outer
    ]
    return np.concatenate(parts)


def _values(
    function: Callable[..., Any], arguments: tuple, name: str, shape: tuple[int, int | None]
) -> Float64[np.ndarray, "n c"]:
    with float64():  # so that a function written with jax.numpy keeps the digits
        found = np.asarray(function(*arguments))
    fits = found.ndim == 2 and found.shape[0] == shape[0] and shape[1] in (None, found.shape[1])
    if not fits:
        raise ValueError(f"`{name}` must give an array of shape {shape}, got {found.shape}.")
    if found.dtype != np.float64:
        raise ValueError(
            f"`{name}` must compute in float64, got {found.dtype}: its rounding would count as "
            "part of the span. Keep the dtype of the arguments."
        )
    # Not check_finite, which would compile for every number of functions.
    if not np.isfinite(found).all():
        raise ValueError(f"`{name}` must be finite, got nan or inf in its values.")
    return found


def _fourier(
    table: Float64[np.ndarray, "n q c"], law: _Law, accuracy: float, dimension: int | None
) -> NoisySpan:
    """The span in the basis of parities, as far as the values determine it."""
    counted = law.weights > 0
    table, n, weights = table[:, counted], len(table), law.weights[counted]
    sizes = np.maximum(table.max(axis=(0, 1)), -table.min(axis=(0, 1)))
    # Scaled first, since squares of very small or large functions would leave float64's range.
    table, sizes = table[:, :, sizes > 0] / sizes[sizes > 0], sizes[sizes > 0]
    # Unit columns span the same and are better conditioned when sizes differ. The norm is taken
    # before averaging: a function whose average vanishes gets a small error, not a large factor.
    norms = np.sqrt(np.einsum("nqc,nqc,q->c", table, table, weights) / n)
    error = _error(norms, sizes, accuracy)
    if law.averaged:
        table, weights = np.einsum("nqc,q->nc", table, weights)[:, None, :], np.ones(1)
    # Scaled rows turn the mean over inputs into a sum.
    rows = table * np.sqrt(weights / n)[None, :, None]
    rows = rows.reshape(n * len(weights), len(norms))
    space = column_space(rows / norms, cut=MARGIN * error)
    seen = int(np.count_nonzero(space.values > error))
    if dimension is not None and seen > dimension:
        raise ValueError(
            f"`dimension` must be at least {seen}, the singular values above the error "
            f"{error:.2g} of the functions scaled to unit norm, got dimension={dimension}."
        )
    most = min(rows.shape) if dimension is None else min(dimension, *rows.shape)
    basis = space.basis.reshape(n, len(weights), space.rank)
    left = np.einsum("nqr,q->nr", basis, np.sqrt(weights * n))
    kept = space.values[: space.rank]
    return NoisySpan(walsh_hadamard(left), kept, error, max(0, most - space.rank))


def _error(
    norms: Float64[np.ndarray, " c"], sizes: Float64[np.ndarray, " c"], accuracy: float
) -> float:
    """A bound on the norm of all errors together, for functions scaled from size 1 to norm 1."""
    # An error below the normal numbers is as large as at the smallest of them.
    relative = accuracy * np.maximum(1.0, np.finfo(np.float64).tiny / sizes)
    return float(np.linalg.norm(relative / norms) + _ARITHMETIC * np.sqrt(len(norms)))


def _certificate(
    span: NoisySpan, d: int, functions: int, degree: int, alpha, threshold, redundant
) -> CubeCertificate:
    sets = subsets(d, degree)
    H, single = span.rows[subset_masks(d, degree)], span.rows[2 ** np.arange(d)]
    space = column_space(H, cut=_CUT)
    lower, upper = risk_bounds(span, H, single, sets, float(alpha))
    return CubeCertificate(
        sets=sets,
        captured=np.sum(space.basis**2, axis=1),
        inputs=d,
        functions=functions,
        rank=space.rank,
        alpha=abs(float(alpha)),
        threshold=float(threshold),
        redundant=redundant,
        dropped=span.dropped,
        risks=lower,
        attained=upper,
        known=len(span.values),
        error=span.error,
        condition=span.condition,
    )
