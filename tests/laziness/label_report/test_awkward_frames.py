# SPDX-License-Identifier: Apache-2.0
"""Frames as they come: columns of any kind are used, or left out with a reason."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

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


def test_a_column_of_mixed_values_does_not_keep_the_others_from_use():
    mixed = [None, *(["u", 2] * N)[: N - 1]]
    frame = pd.DataFrame({"a": A, "mixed": mixed, "y": A > 0})
    assert measure(frame, "y", columns="a").ratio == measure(frame[["a", "y"]], "y").ratio
    use = measure(frame, "y").columns[1]
    assert use.use == "levels"
    assert use.reason == "2 values, 1 missing as one more"
    with pytest.raises(ValueError, match=r"y='nope'.*a, mixed, y"):
        measure(frame, "nope")
    with pytest.raises(ValueError, match="column='nope'"):
        measure(frame, "y", columns=["nope"])


def test_repeated_names_of_pandas_are_numbered():
    frame = pd.DataFrame(np.column_stack([A, A**2, A > 0]), columns=["a", "a", "y"])
    assert [use.name for use in measure(frame, "y").columns] == ["a", "a (2)"]


def test_integers_that_all_differ_are_used_with_a_hint():
    numbers = np.random.default_rng(1).permutation(10 * np.arange(N) ** 2)
    frame = pd.DataFrame({"a": A, "kundenr": numbers, "y": A > 0})
    use = measure(frame, "y").columns[1]
    assert use.use == "number"
    assert use.reason.startswith("differs in every row: if it is an identifier")
    assert not measure(frame, "y", columns=["a", "kundenr"]).columns[1].reason


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_inputs_are_refused_by_name(kind):
    with pytest.raises(TypeError, match=r"`x` must be a dense array.*\(40, 1\).*x.toarray"):
        measure(kind(A[:, None]), A > 0)


def test_a_duration_is_not_called_a_date():
    frame = pd.DataFrame({"took": pd.to_timedelta(A, unit="h"), "y": A > 0})
    assert measure(frame, "y").columns[0].reason == "a duration, as a number"


@pytest.mark.parametrize("labels", [("u", "v"), (0, 1), (0.5, 2.5)])
def test_a_draw_of_rows_that_leaves_one_class_is_said_to(labels):
    y = np.where(np.arange(N) == 3, *labels)
    with pytest.raises(ValueError, match=r"`most_rows` must .* got 2: the draw of rows left one"):
        measure(A[:, None], y, most_rows=2)
    with pytest.raises(ValueError, match="two classes at least"):
        measure(A[:, None], np.full(N, "u"), most_rows=2)
