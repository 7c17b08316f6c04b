# SPDX-License-Identifier: Apache-2.0
import io
import json
import math

import pytest
from rich.console import Console

from unlazy.experiments import Claim, largest, least
from unlazy.experiments.rendering import claims_table


def claim(measured=0.5, relation="<", threshold: float | tuple = 1.0, **kwargs):
    return Claim("AR-80/order", "It is in [0, 1].", measured, relation, threshold, **kwargs)


@pytest.mark.parametrize(
    ("measured", "relation", "threshold", "verdict"),
    [
        (1.0, "<=", 1.0, "holds"),
        (1.0, "<", 1.0, "refuted"),
        (1.0, ">=", 1.0, "holds"),
        (1.0, ">", 1.0, "refuted"),
        (0.9, ">=", 1.0, "refuted"),
        (1.1, "<=", 1.0, "refuted"),
        (0.9, "<", 1.0, "holds"),
        (2, ">", 1, "holds"),
        (0.2, "in", (0.2, 0.4), "holds"),
        (0.4, "in", (0.2, 0.4), "holds"),
        (0.41, "in", (0.2, 0.4), "refuted"),
        (0.19, "in", (0.2, 0.4), "refuted"),
        (math.inf, ">", 1.0, "holds"),
    ],
)
def test_the_verdict_follows_the_relation(measured, relation, threshold, verdict):
    assert claim(measured, relation, threshold).verdict == verdict


@pytest.mark.parametrize("relation", ["<=", ">=", "<", ">"])
def test_nan_refutes_every_claim(relation):
    assert claim(math.nan, relation).verdict == "refuted"
    assert claim(math.nan, "in", (-math.inf, math.inf)).verdict == "refuted"


@pytest.mark.parametrize(
    ("measured", "expected", "as_expected", "outcome"),
    [
        (0.5, "holds", True, "holds"),
        (1.5, "refuted", True, "refuted (as recorded)"),
        (1.5, "holds", False, "REFUTED: recorded as holding"),
        (0.5, "refuted", False, "HOLDS: recorded as refuted"),
    ],
)
def test_only_a_changed_verdict_is_unexpected(measured, expected, as_expected, outcome):
    it = claim(measured, expected=expected)
    assert (it.as_expected, it.outcome) == (as_expected, outcome)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"relation": "=="}, "`relation` must be one of"),
        ({"expected": "maybe"}, "`expected` must be"),
        ({"relation": "in"}, "`threshold` must be a pair"),
        ({"threshold": (0.0, 1.0)}, "`threshold` must be a pair"),
        ({"relation": "in", "threshold": (1.0, 0.0)}, "low <= high"),
        ({"threshold": math.nan}, "`threshold` must be a number"),
    ],
)
def test_a_claim_that_says_nothing_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        claim(**arguments)


@pytest.mark.parametrize("measured", [0.5, math.inf, math.nan])
def test_a_claim_is_valid_json_and_its_number_comes_back(measured):
    text = json.dumps(claim(measured, "in", (0.0, math.inf)).to_dict(), allow_nan=False)
    back = json.loads(text)
    assert float(back["measured"]) == pytest.approx(measured, nan_ok=True)
    assert float(back["threshold"][1]) == math.inf


def test_the_table_shows_brackets_numbers_notes_and_verdicts():
    out = io.StringIO()
    claims = [claim(0.123456, "in", (0.0, 1.0), note="three seeds"), claim(2.0)]
    Console(file=out, width=120).print(claims_table(claims))
    for text in ("It is in [0, 1].", "in [0, 1]", "0.1235", "three seeds", "REFUTED: recorded"):
        assert text in out.getvalue()


def test_the_extremes_of_nothing_refute_a_claim():
    assert (least([3, 1]), largest([3, 1])) == (1.0, 3.0)
    for extreme in (least, largest):
        assert Claim("X-1", "Something.", extreme([]), "<", 1.0).verdict == "refuted"
        assert Claim("X-1", "Something.", extreme([0.0, math.nan]), "<", 1.0).verdict == "refuted"
