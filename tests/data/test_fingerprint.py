# SPDX-License-Identifier: Apache-2.0
import pytest

from unlazy import data
from unlazy.core.errors import UnknownNameError


def test_it_changes_with_any_byte_and_with_nothing_else(root, make_split, write_idx_set):
    train, test = make_split(20, (2, 2), seed=0), make_split(10, (2, 2), seed=1)
    write_idx_set(root / "mnist", train, test)
    first = data.fingerprint("mnist")
    write_idx_set(root / "mnist", train, test)
    assert data.fingerprint("mnist") == first
    images = train[0].copy()
    images[3, 1, 1] ^= 1
    write_idx_set(root / "mnist", (images, train[1]), test)
    assert data.fingerprint("mnist") != first


def test_digits_have_one_and_unknown_sets_have_none():
    assert data.fingerprint("digits") == data.fingerprint("digits")
    with pytest.raises(UnknownNameError, match="Did you mean 'mnist'"):
        data.fingerprint("mnist2")
