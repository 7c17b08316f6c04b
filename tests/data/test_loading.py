# SPDX-License-Identifier: Apache-2.0
import gzip

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sklearn.datasets import load_digits

from unlazy.core.errors import DataFileError, UnknownNameError
from unlazy.data import load

PIXELS = 3072


@pytest.fixture
def mnist(root, make_split, write_idx_set):
    """A made-up MNIST of 3 by 3 pixels: ((images, labels), (images, labels)), images flat."""
    train, test = make_split(200, (3, 3), seed=0), make_split(100, (3, 3), seed=1)
    write_idx_set(root / "mnist", train, test)
    return tuple((images.reshape(len(images), 9), labels) for images, labels in (train, test))


def unit(images, *, center=False):
    """The rows of unit norm, by a naive route: one image at a time, in Python's own floats."""
    rows = []
    for image in images.tolist():
        row = [2 * p / 255 - 1 if center else p / 255 for p in image]
        norm = sum(p * p for p in row) ** 0.5
        rows.append([p / norm for p in row])
    return np.array(rows)


def test_key_zero_draws_the_subset_of_seed_zero_in_file_order(mnist):
    (images, labels), _ = mnist
    task = load("mnist", classes=(0, 1), n_train=15, key=jr.key(0))
    of_class = [i for i in range(len(labels)) if labels[i] in (0, 1)]
    rows = [of_class[i] for i in np.random.default_rng(0).permutation(len(of_class))[:15]]
    # Rounding to float32 of numbers below 1.
    np.testing.assert_allclose(task.x_train, unit(images[rows]), atol=6e-8)
    np.testing.assert_array_equal(task.y_train, [1 if labels[i] == 0 else -1 for i in rows])


def test_the_words_of_a_key_seed_the_subset(mnist):
    (images, _), _ = mnist
    key = jr.key(2**40 + 7)
    words = [int(word) for word in jr.key_data(key)]
    rows = np.random.default_rng(words).permutation(len(images))[:8]
    np.testing.assert_allclose(
        load("mnist", n_train=8, key=key).x_train, unit(images[rows]), atol=6e-8
    )


def test_test_rows_are_drawn_from_the_test_images_by_another_key(mnist):
    _, (images, labels) = mnist
    key = jr.key(5)
    words = np.asarray(jr.key_data(jr.fold_in(key, 1)))
    rows = np.random.default_rng(words).permutation(len(images))[:12]
    task = load("mnist", n_test=12, key=key)
    np.testing.assert_allclose(task.x_test, unit(images[rows]), atol=6e-8)
    np.testing.assert_array_equal(np.argmax(task.y_test, axis=1), labels[rows])


def test_typed_and_raw_keys_draw_alike(mnist):
    del mnist
    typed, raw = (load("mnist", n_train=9, n_test=9, key=k) for k in (jr.key(3), jr.PRNGKey(3)))
    np.testing.assert_array_equal(typed.x_train, raw.x_train)
    np.testing.assert_array_equal(typed.x_test, raw.x_test)


def test_all_is_every_image_once_and_begins_with_the_smaller_subset(mnist):
    (images, _), _ = mnist
    task, part = (load("mnist", n_train=n, key=jr.key(1)) for n in (None, 40))
    np.testing.assert_array_equal(task.x_train[:40], part.x_train)
    expected = unit(images)
    found = np.asarray(task.x_train)
    np.testing.assert_allclose(
        found[np.lexsort(found.T)], expected[np.lexsort(expected.T)], atol=6e-8
    )


def test_subsets_larger_than_a_block_are_normalised_alike(mnist, monkeypatch):
    del mnist
    whole = load("mnist", key=jr.key(1))
    monkeypatch.setattr("unlazy.data.loading._BLOCK", 7)
    np.testing.assert_array_equal(load("mnist", key=jr.key(1)).x_train, whole.x_train)


def test_swapping_two_classes_negates_the_labels_only(mnist):
    del mnist
    one, other = (load("mnist", classes=c, key=jr.key(2)) for c in [(3, 7), (7, 3)])
    np.testing.assert_array_equal(one.x_train, other.x_train)
    np.testing.assert_array_equal(one.y_train, -other.y_train)
    assert (one.classes, other.classes) == ((3, 7), (7, 3))


@pytest.mark.parametrize("classes", [(4, 0, 9), [2, 5, 1, 8], None])
def test_more_classes_give_one_column_each_in_their_order(mnist, classes):
    (images, labels), _ = mnist
    task = load("mnist", classes=classes, key=jr.key(0))
    columns = tuple(range(10)) if classes is None else tuple(classes)
    assert task.classes == columns
    rows = unit(images).astype(np.float32).tolist()
    class_of = dict(zip(map(tuple, rows), labels.tolist(), strict=True))
    for row, y in zip(np.asarray(task.x_train).tolist(), task.y_train, strict=True):
        np.testing.assert_array_equal(y, [1 if class_of[tuple(row)] == c else -1 for c in columns])


def test_centring_comes_before_normalising(mnist):
    (images, _), _ = mnist
    rows = np.random.default_rng(0).permutation(len(images))
    task = load("mnist", center=True, key=jr.key(0))
    np.testing.assert_allclose(task.x_train, unit(images[rows], center=True), atol=6e-8)
    assert (task.x_train < 0).any()


def test_rows_are_normalised_in_double_precision_before_the_cast(mnist):
    del mnist
    single = load("mnist", key=jr.key(0))
    with jax.enable_x64(True):
        double = load("mnist", key=jr.key(0))
    assert single.x_train.dtype == single.y_train.dtype == jnp.float32
    assert double.x_train.dtype == double.y_train.dtype == jnp.float64
    np.testing.assert_array_equal(single.x_train, np.asarray(double.x_train).astype(np.float32))
    # Nine squares and a square root in float64: a few rounding errors of 1.1e-16.
    np.testing.assert_allclose(np.linalg.norm(double.x_train, axis=1), 1, rtol=1e-15)


@pytest.mark.parametrize("part", ["train", "test"])
def test_asking_for_too_many_says_how_many_there_are(mnist, part):
    there = int(np.isin(mnist[part == "test"][1], (0, 1)).sum())

    def ask(n):
        sizes = {"n_train": n} if part == "train" else {"n_test": n}
        return load("mnist", classes=(0, 1), center=False, key=jr.key(0), **sizes)

    ask(there)
    message = f"`n_{part}` must be at most {there}, .* got n_{part}={there + 1}"
    with pytest.raises(ValueError, match=message):
        ask(there + 1)


def test_asking_for_none_is_refused():
    with pytest.raises(ValueError, match="`n_train` must be an integer >= 1, got n_train=0"):
        load("digits", n_train=0, key=jr.key(0))
    with pytest.raises(ValueError, match="`n_test` must be an integer >= 1, got n_test=0"):
        load("digits", n_test=0, key=jr.key(0))


@pytest.mark.parametrize("classes", [(), (1,), (1, 1), (0, 10), (-1, 1), (True, False)])
def test_classes_that_are_not_distinct_numbers_up_to_nine_are_refused(classes):
    with pytest.raises(ValueError, match="`classes` must be two or more distinct integers from 0"):
        load("digits", classes=classes, key=jr.key(0))


def test_an_unknown_set_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"got name='cifar-10'. Did you mean 'cifar10'\?"):
        load("cifar-10", key=jr.key(0))


def test_a_zero_image_is_refused_by_its_row_in_the_file_only_if_drawn(
    root, make_split, write_idx_set
):
    images, labels = make_split(40, (2, 2), seed=0)
    labels[[5, 11]] = 7
    images[[5, 11]] = 0
    write_idx_set(root / "mnist", (images, labels), make_split(20, (2, 2), seed=1))
    with pytest.raises(
        DataFileError, match=r"train images .* got zeros in rows 5 and 11 of those in"
    ):
        load("mnist", key=jr.key(0))
    task = load("mnist", classes=(0, 1), key=jr.key(0))
    np.testing.assert_allclose(np.linalg.norm(task.x_train, axis=1), 1, rtol=1e-6)
    load("mnist", center=True, key=jr.key(0))  # black is -1, not 0


def test_cifar_subsets_are_drawn_in_order_of_class(root, make_split, write_cifar_set):
    batches = [make_split(20, (PIXELS,), seed=i) for i in range(3)]
    write_cifar_set(root / "cifar-10-batches-bin", batches[:2], batches[2])
    images, labels = (np.concatenate(arrays) for arrays in zip(*batches[:2], strict=True))
    task = load("cifar10", classes=(1, 0), n_train=5, key=jr.key(0))
    ordered = [*np.flatnonzero(labels == 0), *np.flatnonzero(labels == 1)]
    rows = [ordered[i] for i in np.random.default_rng(0).permutation(len(ordered))[:5]]
    np.testing.assert_allclose(task.x_train, unit(images[rows]), atol=6e-8)
    np.testing.assert_array_equal(task.y_train, np.where(labels[rows] == 1, 1, -1))


def test_classes_that_the_files_do_not_hold_are_refused(root, make_split, write_cifar_set):
    batch = make_split(20, (PIXELS,), seed=0, classes=2)
    write_cifar_set(root / "cifar-10-batches-bin", [batch], batch)
    with pytest.raises(DataFileError, match=r"got classes=\(0, 5\).* only of the classes \[0, 1\]"):
        load("cifar10", classes=(0, 5), key=jr.key(0))
    with pytest.raises(DataFileError, match=r"only of the classes \[0, 1\]"):
        load("cifar10", key=jr.key(0))


def test_train_and_test_images_of_two_sizes_are_refused(root, make_split, write_idx_set):
    write_idx_set(root / "mnist", make_split(20, (2, 2), seed=0), make_split(20, (2, 3), seed=1))
    with pytest.raises(DataFileError, match="found 4 pixels in the train images and 6 in the test"):
        load("mnist", key=jr.key(0))


def test_a_torn_file_is_named(root, mnist):
    del mnist
    path = root / "mnist" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataFileError, match=r"t10k-images-idx3-ubyte.gz must be a complete gzip"):
        load("mnist", key=jr.key(0))


def test_unzipped_content_under_a_zipped_name_is_read(root, mnist):
    del mnist
    before = load("mnist", key=jr.key(0))
    for path in (root / "mnist").iterdir():
        path.write_bytes(gzip.decompress(path.read_bytes()))
    np.testing.assert_array_equal(load("mnist", key=jr.key(0)).x_train, before.x_train)


def test_digits_are_split_in_file_order():
    pixels, target = load_digits(return_X_y=True)
    task = load("digits", key=jr.key(0))
    assert (len(task.x_train), len(task.x_test)) == (1437, 360)
    rows = np.random.default_rng(0).permutation(1437)
    expected = pixels[rows] / np.linalg.norm(pixels[rows], axis=1, keepdims=True)
    np.testing.assert_allclose(task.x_train, expected, atol=6e-8)
    np.testing.assert_array_equal(np.argmax(task.y_train, axis=1), target[rows])
    assert sorted(np.argmax(task.y_test, axis=1)) == sorted(target[1437:])


@pytest.mark.parametrize(("name", "d"), [("mnist", 784), ("cifar10", PIXELS)])
def test_the_real_files_load(name, d, real_data):
    del real_data
    task = load(name, classes=(0, 1), n_train=300, n_test=200, key=jr.key(0))
    assert (task.x_train.shape, task.x_test.shape) == ((300, d), (200, d))
    np.testing.assert_allclose(np.linalg.norm(task.x_train, axis=1), 1, rtol=1e-6)
    # 300 fair draws: 100 or fewer of a class has probability below 1e-8.
    assert 100 < int((task.y_train == 1).sum()) < 200
