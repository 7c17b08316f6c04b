# SPDX-License-Identifier: Apache-2.0
"""JSON of any origin is read, or refused in one way."""

import pytest

from unlazy.experiments.canonical import compact_json, plain_json


def test_what_was_written_is_read():
    value = {"a": [1, 2.5, None, True, "text\ud800"], "b": {"c": {}}}
    assert plain_json(compact_json(value)) == value
    assert plain_json("7") == 7


@pytest.mark.parametrize("text", ["NaN", '{"a": [-Infinity]}', "1e999", "[[[NaN]]]"])
def test_what_json_cannot_say_is_refused(text):
    with pytest.raises(ValueError, match="neither nan nor infinity"):
        plain_json(text)


@pytest.mark.parametrize("depth", [100, 900, 1_000_000])
@pytest.mark.parametrize("kind", ["[]", "{}"])
def test_what_is_nested_too_deep_is_refused(depth, kind):
    parts = {"[]": ("[", "]"), "{}": ('{"a":', "}")}[kind]
    with pytest.raises(ValueError, match="nested more than 60 deep"):
        plain_json(parts[0] * depth + "1" + parts[1] * depth)
    assert plain_json(parts[0] * 50 + "1" + parts[1] * 50)


@pytest.mark.parametrize("text", [b"\xff\xfe{", "{", "", "9" * 5000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r"[a-z]"):
        plain_json(text)
