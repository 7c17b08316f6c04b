# SPDX-License-Identifier: Apache-2.0
"""Endless images: copies of given ones under small random affine and elastic deformations."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float32, Int32, PRNGKeyArray, Real, UInt32

from unlazy.core.checks import (
    Number,
    as_number,
    check_count,
    check_finite,
    check_key,
    check_labels,
    check_positive,
    check_real,
)
from unlazy.core.entries import entry

# Pixels of one program. Every call runs programs of this one size, also for a single image, so that
# a sample is the same to the last bit however many are asked for.
_BLOCK = 2**18
_MOST_AMOUNT = 1000


class _Deformation(NamedTuple):
    """Limits of the deformations and filters of noise; as arrays they need no new program."""

    rotation: Float32[Array, ""]  # radians
    scale: Float32[Array, ""]  # of the logarithm
    shear: Float32[Array, ""]
    shift: Float32[Array, ""]
    elastic: Float32[Array, ""]
    rows: Float32[Array, "h h"]
    columns: Float32[Array, "w w"]


@entry
def deformed(
    images: Real[Array | np.ndarray, "k h w"]
    | Real[Array | np.ndarray, "k h w c"]
    | Real[Array | np.ndarray, "k d"],
    labels: Real[Array | np.ndarray, "k *c"],
    n: int,
    *,
    start: int = 0,
    rotation: Number = 10.0,
    scale: Number = 0.1,
    shear: Number = 0.15,
    shift: Number = 1.0,
    elastic: tuple[Number, Number] = (1.2, 6.0),
    originals: bool = True,
    shape: tuple[int, int] | None = None,
    dtype: jax.typing.DTypeLike | None = None,
    key: PRNGKeyArray,
) -> tuple[Real[Array, "n ..."], Real[Array, "n ..."]]:
    r"""Draw `n` samples from the endless set of small deformations of some images.

    Sample number $i$ is image $i \bmod k$ in pass $\lfloor i / k \rfloor$ over the $k$ images, read
    at displaced pixels: with $c$ the centre of the image and $u$ a pixel of the result,

    $$x_i(u) = x\big(c + A (u - c) + b + \delta(u)\big), \qquad
    A = R(\theta) \begin{pmatrix} s_1 & 0 \\ a & s_2 \end{pmatrix}$$

    The angle $\theta$, the slant $a$ and both entries of $b$ are uniform between plus and minus
    their limits, and $\log s_1, \log s_2$ between $\pm\log(1 + \text{scale})$. Each component of
    $\delta$ is Gaussian noise smoothed by a Gaussian: its standard deviation is `elastic[0]`, and
    its correlation at distance $r$ is $e^{-r^2 / 4 \sigma^2}$ away from the edge, with `elastic[1]`
    for $\sigma$. Between pixels the image is interpolated linearly, and beyond its edge the edge
    goes on, so that no value leaves the range of the image.

    A sample is a function of `key`, its number and its image alone. It is the same to the last bit
    whatever `n`, `start` and the dtypes of JAX are, and the same to rounding on another device or
    inside another program. So machines can share the work by ranges of numbers, and no sample needs
    to be stored. Beside images and result, the device needs memory for a few hundred images.

    Source: Simard, Steinkraus and Platt, "Best practices for convolutional neural networks applied
    to visual document analysis", ICDAR 2003, sec. 2, for the elastic part.

    Args:
        images: Of shape (k, h, w), (k, h, w, channels), or rows of flattened images with `shape`.
        labels: Of shape (k,) or (k, c), one row per image. Pass `np.arange(k)` to learn which
            image a sample was made of.
        n: Number of samples.
        start: Number of the first sample.
        rotation: Largest angle, in degrees.
        scale: Largest relative change of size, drawn for height and width apart.
        shear: Largest slant: columns per row.
        shift: Largest shift, in pixels.
        elastic: Standard deviation and smoothness $\sigma$ of the displacements, in pixels.
        originals: Whether the first pass is the images as they are, so that the samples are the
            training set followed by deformed copies.
        shape: Height and width, for rows. Rows of several colours hold plane after plane, as those
            of `load` do.
        dtype: Of the result; None for that of the images, where float64 becomes float32. Bytes are
            rounded, and one that cannot hold them is refused. Interpolation is in float32, which
            rounds integers beyond 2^24.
        key: Of all samples.

    Returns:
        The samples, laid out like `images`, and their labels.

    Example:
        >>> from unlazy.data import load
        >>> task = load("digits", key=jr.key(0))
        >>> x, y = deformed(task.x_train, task.y_train, 3000, shape=(8, 8), key=jr.key(1))
        >>> x.shape, y.shape, bool((x[:1437] == task.x_train).all())
        ((3000, 64), (3000, 10), True)
    """
    check_count(n, "n")
    check_count(start, "start", least=0)
    check_key(key)
    planes = _planes(images, shape)
    k, *one = planes.shape
    check_labels(labels, k, "labels")
    limits = _deformation(rotation, scale, shear, shift, elastic, planes)
    sizes = (max(1, _BLOCK // math.prod(one)), *np.shape(images)[1:])
    kind = _dtype(planes, dtype)
    make = functools.partial(_block, sizes, kind, planes, limits, key)
    passes_kept = jnp.uint32(1 if originals else 0)
    y = jnp.asarray(labels)[(start + np.arange(n)) % k]
    if n <= sizes[0]:
        return make(passes_kept, jnp.uint32(start))[:n], y
    out = jnp.zeros((n, *sizes[1:]), kind)
    # The last block ends with the result, and holds some samples of the block before once more.
    for at in (*range(0, n - sizes[0], sizes[0]), n - sizes[0]):
        out = _put(out, make(passes_kept, jnp.uint32(start + at)), jnp.int32(at))
    return out, y


@functools.partial(jax.jit, donate_argnums=0)
def _put(
    out: Real[Array, "n ..."], block: Real[Array, "b ..."], at: Int32[Array, ""]
) -> Real[Array, "n ..."]:
    """The result with one more block in it, in place."""
    return jax.lax.dynamic_update_slice_in_dim(out, block, at, axis=0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _block(
    sizes: tuple[int, ...],
    dtype: Any,
    planes: Real[Array, "k c h w"],
    limits: _Deformation,
    key: PRNGKeyArray,
    passes_kept: UInt32[Array, ""],
    first: UInt32[Array, ""],
) -> Real[Array, "b ..."]:
    """As many samples as `sizes` says, from number `first` on, laid out like it."""
    k = jnp.uint32(len(planes))
    number = first + jnp.arange(sizes[0], dtype=jnp.uint32)
    row, turn = number % k, number // k
    keys = jax.vmap(lambda t, r: jr.fold_in(jr.fold_in(key, t), r))(turn, row)
    on = (turn >= passes_kept).astype(jnp.float32)
    u, noise = jax.vmap(functools.partial(_draws, planes.shape[2:]))(keys, on)
    positions = jax.vmap(_positions, in_axes=(None, 0, 0))(limits, u, noise)
    block = jax.vmap(_read)(planes[row].astype(jnp.float32), positions)
    if jnp.issubdtype(dtype, jnp.integer):
        block = jnp.rint(block)
    if len(sizes) == 4:
        block = jnp.moveaxis(block, 1, -1)
    return block.reshape(sizes).astype(dtype)


def _draws(
    sizes: tuple[int, ...], key: PRNGKeyArray, on: Float32[Array, ""]
) -> tuple[Float32[Array, " 6"], Float32[Array, "2 h w"]]:
    """The uniform and the Gaussian numbers of one sample; `on` is 0 for an original, else 1."""
    key_affine, key_elastic = jr.split(key)
    u = jr.uniform(key_affine, (6,), jnp.float32, -1, 1)
    return on * u, on * jr.normal(key_elastic, (2, *sizes), jnp.float32)


def _positions(
    limits: _Deformation, u: Float32[Array, " 6"], noise: Float32[Array, "2 h w"]
) -> Float32[Array, "2 h w"]:
    """Where each pixel of one sample is read: the map of the docstring."""
    _, h, w = noise.shape
    smooth = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
    delta = limits.elastic * smooth("ia,cab,jb->cij", limits.rows, noise, limits.columns)
    i = jnp.arange(h, dtype=jnp.float32)[:, None] - (h - 1) / 2
    j = jnp.arange(w, dtype=jnp.float32)[None, :] - (w - 1) / 2
    i, j = jnp.broadcast_arrays(i, j)
    tall, wide = jnp.exp(limits.scale * u[1]), jnp.exp(limits.scale * u[2])
    i, j = tall * i, limits.shear * u[3] * i + wide * j
    cosine, sine = jnp.cos(limits.rotation * u[0]), jnp.sin(limits.rotation * u[0])
    i, j = cosine * i - sine * j, sine * i + cosine * j
    centre = jnp.asarray([(h - 1) / 2, (w - 1) / 2], jnp.float32)
    offset = centre + limits.shift * u[4:]
    return jnp.stack([i, j]) + offset[:, None, None] + delta


def _read(
    planes: Float32[Array, "c h w"], positions: Float32[Array, "2 h w"]
) -> Float32[Array, "c h w"]:
    """One image between its pixels, by linear interpolation; the edge goes on beyond it."""
    _, h, w = planes.shape
    i, j = jnp.clip(positions[0], 0, h - 1), jnp.clip(positions[1], 0, w - 1)
    top, left = jnp.floor(i), jnp.floor(j)
    down, right = i - top, j - left
    i0, j0 = top.astype(jnp.int32), left.astype(jnp.int32)
    i1, j1 = jnp.minimum(i0 + 1, h - 1), jnp.minimum(j0 + 1, w - 1)
    down, right = down[None], right[None]
    above = (1 - right) * planes[:, i0, j0] + right * planes[:, i0, j1]
    below = (1 - right) * planes[:, i1, j0] + right * planes[:, i1, j1]
    return (1 - down) * above + down * below


def _planes(images: Any, shape: Any) -> Real[Array, "k c h w"]:
    """The images on the device, as planes of one colour each."""
    check_real(images, "images")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused below
        images = jnp.asarray(images)
        images = images.astype(jnp.float32) if images.dtype == jnp.float64 else images
    check_finite(images, "images")
    sizes = images.shape
    if shape is not None:
        return _from_rows(images, shape)
    if len(sizes) not in (3, 4) or 0 in sizes:
        raise ValueError(
            "`images` must have shape (k, h, w) or (k, h, w, channels), all at least 1, "
            f"got images.shape={sizes}. Pass `shape` if they are rows of flattened images."
        )
    return images[:, None] if images.ndim == 3 else jnp.moveaxis(images, -1, 1)


def _from_rows(rows: Array, shape: Any) -> Real[Array, "k c h w"]:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise ValueError(f"`shape` must be a pair (height, width), got shape={shape!r}.")
    for size in shape:
        check_count(size, "shape")
    sizes = rows.shape
    if len(sizes) != 2 or 0 in sizes or sizes[1] % math.prod(shape):
        raise ValueError(
            f"`images` must be rows of planes of `shape`, got images.shape={sizes} and "
            f"shape={tuple(shape)}. Leave `shape` out for images of shape (k, h, w)."
        )
    return rows.reshape(sizes[0], -1, *shape)


def _deformation(
    rotation: Any, scale: Any, shear: Any, shift: Any, elastic: Any, planes: Array
) -> _Deformation:
    if not isinstance(elastic, tuple | list) or len(elastic) != 2:
        raise ValueError(
            f"`elastic` must be a pair (strength, smoothness), got elastic={elastic!r}. "
            "Pass (0, 6) for no elastic deformation."
        )
    strength, smoothness = elastic
    check_positive(smoothness, "elastic[1]")
    limits = (
        math.radians(_amount(rotation, "rotation")),
        math.log1p(_amount(scale, "scale")),
        _amount(shear, "shear"),
        _amount(shift, "shift"),
        _amount(strength, "elastic[0]"),
    )
    filters = (_filter(size, float(smoothness)) for size in planes.shape[2:])
    return _Deformation(*map(jnp.float32, limits), *map(jnp.asarray, filters))


def _amount(value: Any, name: str) -> float:
    number = as_number(value, name, least=0)
    if number > _MOST_AMOUNT:
        raise ValueError(f"`{name}` must be at most {_MOST_AMOUNT}, got {name}={value!r}.")
    return number


def _filter(size: int, smoothness: float) -> Float32[np.ndarray, "size size"]:
    """A Gaussian around each pixel, with weights of unit norm: they keep the variance of noise."""
    distance = np.arange(size)[:, None] - np.arange(size)[None, :]
    with np.errstate(over="ignore"):
        weights = np.exp(-((distance / smoothness) ** 2) / 2)
    return (weights / np.linalg.norm(weights, axis=1, keepdims=True)).astype(np.float32)


def _check_range(planes: Array, kind: Any) -> None:
    """Raise where a dtype of whole numbers would cut values off: none leaves the images' range."""
    low, high, most = int(jnp.min(planes)), int(jnp.max(planes)), jnp.iinfo(kind)
    if low < most.min or high > most.max:
        raise ValueError(
            f"`dtype` must hold the values of the images, {low} to {high}, got dtype={kind}, which "
            f"ends at {most.min} and {most.max}."
        )


def _dtype(planes: Array, dtype: Any) -> Any:
    is_whole = jnp.issubdtype(planes.dtype, jnp.integer)
    if dtype is None:
        narrow = is_whole or planes.dtype in (jnp.float16, jnp.bfloat16)
        return planes.dtype if narrow else jnp.float32
    try:
        kind = jax.dtypes.canonicalize_dtype(dtype)
    except TypeError as error:
        raise ValueError(f"`dtype` must be a dtype of numbers, got dtype={dtype!r}.") from error
    if jnp.issubdtype(kind, jnp.floating):
        return kind
    if is_whole and jnp.issubdtype(kind, jnp.integer):
        _check_range(planes, kind)
        return kind
    raise ValueError(
        f"`dtype` must be floating for images of {planes.dtype}, got dtype={dtype!r}. "
        "For bytes pass images that are bytes, such as (255 * images).round().astype('uint8')."
    )
