# SPDX-License-Identifier: Apache-2.0
"""Learning problems from image sets: chosen classes, random subsets, rows of unit norm."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from unlazy.core.checks import (
    check_count,
    check_inputs,
    check_key,
    check_labels,
    check_name,
    some_rows,
)
from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.data.image_files import CLASSES
from unlazy.data.image_sets import NAMES, ImageSet, read_image_set

_BLOCK = 4096  # rows held in float64 at a time; all 50,000 of CIFAR-10 would take 1.2 GB


class Task(eqx.Module):
    """A learning problem: inputs and labels to train on and to test on.

    A single label per sample is +1 for the first of two classes and -1 for the second. A row of
    labels is one-vs-rest: +1 in the column of the sample's class, -1 in the others.

    """

    x_train: Float[Array, "n d"]
    y_train: Float[Array, " n"] | Float[Array, "n c"]
    x_test: Float[Array, "n_test d"]
    y_test: Float[Array, " n_test"] | Float[Array, "n_test c"]
    name: str = eqx.field(static=True)
    classes: tuple[int, ...] = eqx.field(static=True)  # in the order of the columns of y

    @entry
    def __check_init__(self):
        check_inputs(self.x_train, "x_train")
        check_inputs(self.x_test, "x_test")
        check_labels(self.y_train, len(self.x_train), "y_train")
        check_labels(self.y_test, len(self.x_test), "y_test")
        for name, train, test in [
            ("x_test", self.x_train, self.x_test),
            ("y_test", self.y_train, self.y_test),
        ]:
            if train.shape[1:] != test.shape[1:]:
                raise ValueError(
                    f"`{name}` must have as many columns as in training, {train.shape[1:]}, "
                    f"got {name}.shape={test.shape}."
                )


@entry
def load(
    name: str,
    *,
    classes: Sequence[int] | None = None,
    n_train: int | None = None,
    n_test: int | None = None,
    center: bool = False,
    key: PRNGKeyArray,
) -> Task:
    r"""Load an image set as a task with rows of unit norm and labels of plus minus one.

    With pixels $p \in [0, 1]^d$ a row is $x = q / \|q\|_2$, where $q = p$, or $2p - 1$ if `center`,
    computed in float64 and then cast to the default dtype of JAX.

    A subset is the first `n_train` of a random permutation of the training images of the chosen
    classes, so subsets are nested: the one of 100 begins with the one of 10. Before the permutation
    images are in file order, those of CIFAR-10 sorted by class. Test images are drawn likewise.

    The files come from `UNLAZY_DATA`, else the cache folder, else a download: see `where`. "digits"
    comes with scikit-learn: 1797 images of 8 by 8 pixels, here the first 1437 of the file to train
    on and the last 360 to test on. CIFAR-10 rows are the red, the green, then the blue plane.

    Source: AR-22 and AR-53, arXiv:1901.08584 sec. 6. With `key=jax.random.key(0)` the MNIST subsets
    are those of the table in AR-53; those of CIFAR-10 depend on the order within a class, in which
    copies of that set differ.

    Args:
        name: "mnist", "fashion-mnist", "cifar10" or "digits".
        classes: Two or more distinct class numbers; None for all ten. Two give labels of
            shape (n,), +1 for the first and -1 for the second; more give (n, c), one column per
            class.
        n_train: Number of training samples; None for all, in random order.
        n_test: Number of test samples; None for all, in random order.
        center: Whether to map pixels to [-1, 1] first.
        key: Of the two permutations.

    Raises:
        UnknownNameError: If there is no set of that name.
        ValueError: If there are fewer samples than asked for.
        DataFileError: If files are missing or corrupt, do not hold the classes, or a drawn
            image is zero and so cannot be normalised.

    Example:
        >>> task = load("digits", classes=(3, 8), n_train=100, n_test=50, key=jax.random.key(0))
        >>> task.x_train.shape, task.y_train.shape
        ((100, 64), (100,))
    """
    check_name(name, NAMES, "name")
    chosen = _check_classes(classes)
    check_key(key)
    for n, argument in [(n_train, "n_train"), (n_test, "n_test")]:
        if n is not None:
            check_count(n, argument)
    # The training rows use the key as it is, not a part of a split, so that key(0) is seed 0.
    key_test = jr.fold_in(key, 1)
    source = read_image_set(name)
    train = _draw(source, "train", chosen, n_train, key=key)
    test = _draw(source, "test", chosen, n_test, key=key_test)
    return Task(
        x_train=jnp.asarray(_unit_rows(source, "train", train, center=center)),
        y_train=jnp.asarray(_signs(source.train.labels[train], chosen)),
        x_test=jnp.asarray(_unit_rows(source, "test", test, center=center)),
        y_test=jnp.asarray(_signs(source.test.labels[test], chosen)),
        name=name,
        classes=chosen,
    )


def _check_classes(given: Sequence[int] | None) -> tuple[int, ...]:
    if given is None:
        return tuple(range(CLASSES))
    classes = tuple(np.asarray(given).tolist()) if np.ndim(given) == 1 else ()
    is_number = all(
        isinstance(c, int | np.integer) and not isinstance(c, bool) and 0 <= c < CLASSES
        for c in classes
    )
    if not is_number or len(classes) < 2 or len(set(classes)) != len(classes):
        raise ValueError(
            f"`classes` must be two or more distinct integers from 0 to {CLASSES - 1}, "
            f"got classes={given!r}. Leave it out for all ten."
        )
    return tuple(int(c) for c in classes)


def _draw(
    source: ImageSet, part: str, classes: tuple[int, ...], n: int | None, *, key: PRNGKeyArray
) -> Int[np.ndarray, " k"]:
    """The rows in the files of a random subset of the images of the chosen classes."""
    labels = getattr(source, part).labels
    present = set(np.unique(labels).tolist())
    if not present.issuperset(classes):
        raise DataFileError(
            f"`classes` must be in the files, got classes={classes}, but the {part} images in "
            f"{source.folder} are only of the classes {sorted(present)}. Ask for some of these."
        )
    rows = np.flatnonzero(np.isin(labels, classes))
    if n is not None and n > len(rows):
        raise ValueError(
            f"`n_{part}` must be at most {len(rows)}, the number of {part} images of the classes "
            f"{classes} in {source.folder}, got n_{part}={n}. Leave it out for all of them."
        )
    if source.by_class:
        rows = rows[np.argsort(labels[rows], kind="stable")]
    return rows[_generator(key).permutation(len(rows))[:n]]


def _generator(key: PRNGKeyArray) -> np.random.Generator:
    # NumPy pads a short seed with zeros, and the words of jax.random.key(0) are [0, 0]: this is
    # then default_rng(0), which AR-53 draws its subsets with.
    return np.random.default_rng(np.asarray(jr.key_data(key)))


def _unit_rows(
    source: ImageSet, part: str, rows: Int[np.ndarray, " k"], *, center: bool
) -> Float[np.ndarray, "k d"]:
    """The chosen images with unit norm, computed in float64 and then cast (AR-102)."""
    images = getattr(source, part).images
    unit = np.empty((len(rows), images.shape[1]), jax.dtypes.canonicalize_dtype(float))
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        pixels = images[rows[block]] / np.float64(source.peak)
        if center:
            pixels = 2 * pixels - 1
        norms = np.linalg.norm(pixels, axis=1, keepdims=True)
        if not norms.all():
            zero = np.sort(rows[block][norms[:, 0] == 0])
            raise DataFileError(
                f"The {part} images must have no image of zeros, got zeros in {some_rows(zero)} of "
                f"those in {source.folder}. A zero image has no direction; take it out."
            )
        unit[block] = pixels / norms
    return unit


def _signs(
    labels: UInt8[np.ndarray, " k"], classes: tuple[int, ...]
) -> Float[np.ndarray, " k"] | Float[np.ndarray, "k c"]:
    if len(classes) == 2:
        is_class = labels == classes[0]
    else:
        is_class = labels[:, None] == np.asarray(classes)[None, :]
    return np.where(is_class, 1, -1).astype(jax.dtypes.canonicalize_dtype(float))
