# SPDX-License-Identifier: Apache-2.0
"""Numbers and dates that are written as text."""

import pyarrow as pa
import pytest

from unlazy.data.dialects import as_dates, as_numbers

NUMBERS = {
    "plain": (["1", "-2.5", "3e2", ".5", None], [1, -2.5, 300, 0.5, None]),
    "currency": (["$51,234", "-$900", "$1,234,567.5"], [51234, -900, 1234567.5]),
    "currency with space": (["€ 12", "7 €", "+3 €"], [12, 7, 3]),
    "code of a currency": (["CHF 11,181", "-7.5 CHF", "900"], [11181, -7.5, 900]),
    "code with an E": (["1.234,5 EUR", "2,5e1EUR", "EUR 3"], [1234.5, 25, 3]),
    "percent": (["12.3%", "-4 %"], [12.3, -4]),
    "thousands": (["1,234", "900"], [1234, 900]),
    "decimal comma": (["1.234,5", "0,25", "€ 7"], [1234.5, 0.25, 7]),
    "spaces": (["1 234 567", "1\u202f234"], [1234567, 1234]),
    "apostrophes": (["1'234.50", "2"], [1234.5, 2]),
    "a slip": (["1"] * 19 + ["a"], [1] * 19 + [None]),
}
TEXT = {
    "words": ["a", "b"],
    "too many words": ["1"] * 18 + ["a"] * 2,
    "two currencies": ["$5", "€ 5"],
    "two codes": ["EUR 5", "SEK 5"],
    "codes of goods": ["SKU 12", "ABC 900"],
    "some percent": ["12%", "0.12"],
    "points of thousands or of decimals": ["€ 900", "€ 1.234"],
    "codes": ["007", "012"],
    "dates": ["31.12.2020", "1.2.2020"],
    "versions": ["1.2.3", "1.10.0"],
    "nothing": [None, None],
}
DATES = {
    "points": ["31.12.2020", "1.2.2021"],
    "points, low numbers": ["01.02.2020", "03.04.2020"],
    "month first": ["12/31/2020", "02/01/2021"],
    "year first": ["2020-12-31", "2021/2/1"],
}


def column(cells):
    return pa.chunked_array([pa.array(cells, pa.large_string())])


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_without_their_signs_and_separators(name):
    cells, expected = NUMBERS[name]
    reading = as_numbers(column(cells))
    assert reading is not None
    assert reading.values is not None
    assert reading.values.to_pylist() == expected


@pytest.mark.parametrize("name", TEXT)
def test_what_is_not_clearly_numbers_stays_text(name):
    assert as_numbers(column(TEXT[name])) is None


@pytest.mark.parametrize("name", DATES)
def test_dates_of_a_clear_order_are_read(name):
    reading = as_dates(column(DATES[name]))
    assert reading is not None
    assert reading.values is not None
    found = [day.strftime("%Y-%m-%d") for day in reading.values.to_pylist()]
    assert found in (["2020-12-31", "2021-02-01"], ["2020-02-01", "2020-04-03"])


@pytest.mark.parametrize("cells", [["01/02/2020", "03/04/2020"], ["31/12/2020", "12/31/2020"]])
def test_dates_of_an_unknown_order_are_said_to_be(cells):
    reading = as_dates(column(cells))
    assert reading is not None
    assert reading.values is None
    assert "unknown order" in reading.note


@pytest.mark.parametrize("cells", [["31.12.20", "x"], [None]])
def test_other_text_is_no_date(cells):
    assert as_dates(column(cells)) is None
