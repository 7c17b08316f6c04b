# SPDX-License-Identifier: Apache-2.0
"""Frames as they come: columns of any kind are used, or left out with a reason."""

import numpy as np
import polars as pl
import pytest

from unlazy.laziness.label_report.measure import measure

N = 40
A = np.random.default_rng(0).standard_normal(N)
PETS = ["u", "v"] * (N // 2)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["u", "v"])])
def test_categories_of_polars_are_inputs_and_labels(kind):
    pets = pl.Series([None, *PETS[1:]], dtype=kind)
    plain = pl.DataFrame({"a": A, "c": [None, *PETS[1:]], "y": A > 0})
    frame = plain.with_columns(pets.alias("c"))
    assert measure(frame, "y").ratio == measure(plain, "y").ratio
    report = measure(frame, "c")
    assert report.classes == ("u", "v")
    assert report.rows_unlabelled == 1
