# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from unlazy.experiments import Cell, CellResult
from unlazy.experiments.canonical import compact_json, encode

# A child process gets the path of this one, so that it works installed or not.
PATH = os.pathsep.join(sys.path)


@dataclass(frozen=True)
class Optimizer:
    lr: float
    name: str = "sgd"


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (10, 20)
    optimizer: Optimizer = Optimizer(0.1)
    flag: bool = False
    extra: Any = None


@dataclass
class Mutable:
    lr: float = 0.1


BASE = Cell("paper/figure", 1, Config(), seed=0)
OTHERS = [
    Cell("paper/figure2", 1, Config(), seed=0),
    Cell("paper/figure", 2, Config(), seed=0),
    Cell("paper/figure", 1, Config(), seed=1),
    Cell("paper/figure", 1, Config(widths=(20, 10))),
    Cell("paper/figure", 1, Config(widths=(10,))),
    Cell("paper/figure", 1, Config(optimizer=Optimizer(np.nextafter(0.1, 1)))),
    Cell("paper/figure", 1, Config(optimizer=Optimizer(0.1, "adam"))),
    Cell("paper/figure", 1, Config(flag=True)),
    Cell("paper/figure", 1, Config(extra=0)),
    Cell("paper/figure", 1, Config(extra=0.0)),
    Cell("paper/figure", 1, Config(extra=False)),
    Cell("paper/figure", 1, Config(extra="0")),
    Cell("paper/figure", 1, Config(extra=())),
    Cell("paper/figure", 1, Config(extra=float("nan"))),
    Cell("paper/figure", 1, Config(extra="nan")),
    Cell("paper/figure", 1, Config(extra=float("inf"))),
    Cell("paper/figure", 1, Optimizer(0.1)),
]


def test_everything_that_identifies_a_cell_changes_its_digest():
    assert len({cell.digest for cell in [BASE, *OTHERS]}) == len(OTHERS) + 1
    assert len({BASE, *OTHERS}) == len(OTHERS) + 1


def test_the_class_of_the_config_is_part_of_the_digest():
    renamed = type("Renamed", (Config,), {})
    assert Cell("p", 1, dataclass(frozen=True)(renamed)()) != Cell("p", 1, Config())


def test_the_label_is_not_part_of_the_digest():
    labelled = replace(BASE, label="another label")
    assert labelled == BASE
    assert hash(labelled) == hash(BASE)
    assert str(labelled) == "another label"


def test_the_order_of_fields_does_not_matter():
    one = compact_json({"a": 1, "b": encode((1, 2.5))})
    other = compact_json({"b": encode((1, 2.5)), "a": 1})
    assert one == other == '{"a":1,"b":[1,2.5]}'


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_the_digest_is_the_same_in_every_process(hash_seed):
    code = (
        "from dataclasses import make_dataclass as m; from unlazy.experiments import Cell\n"
        "O = m('Optimizer', ['lr', 'name'], frozen=True)\n"
        "C = m('Config', ['widths', 'optimizer', 'flag', 'extra'], frozen=True)\n"
        "print(Cell('paper/figure', 1, C((10, 20), O(0.1, 'sgd'), False, None)).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": PATH}
    child = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == BASE.digest


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        ([1, 2], "config.extra"),
        ({"a": 1}, "config.extra"),
        ((1, np.float32(2)), r"config.extra\[1\]"),
        (np.ones(2), "config.extra"),
        (Mutable(), "config.extra"),
        (Config, "config.extra"),
    ],
)
def test_a_config_that_may_change_or_has_no_text_is_refused_with_its_place(extra, where):
    with pytest.raises(TypeError, match=f"`{where}` must be a Python scalar"):
        Cell("paper/figure", 1, Config(extra=extra))


@pytest.mark.parametrize("name", ["", "/abs", "../up", "a//b", "a/", "a b", ".hidden", "a/.."])
def test_an_experiment_name_that_is_no_plain_folder_is_refused(name):
    with pytest.raises(ValueError, match="`experiment` must be"):
        Cell(name, 1, Config())


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="`table` must have columns of equal length"):
        CellResult({"a": np.zeros(2), "b": np.zeros(3)})


@pytest.mark.parametrize(
    "column",
    [
        np.array([None, 1], dtype=object),
        np.zeros((2, 2)),
        np.zeros(2, dtype=complex),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.zeros(2, dtype=np.longdouble),
    ],
)
def test_a_column_that_parquet_would_not_give_back_is_refused(column):
    with pytest.raises(ValueError, match=r"`table\['a'\]` must be one-dimensional"):
        CellResult({"a": column})


@pytest.mark.parametrize("dtype", [object, [("x", float), ("y", object)]])
def test_arrays_of_python_objects_are_refused(dtype):
    with pytest.raises(ValueError, match=r"`arrays\['a'\]` must not hold Python objects"):
        CellResult({}, {"a": np.zeros(2, dtype=dtype)})


def test_a_name_that_would_be_a_path_is_refused():
    with pytest.raises(ValueError, match="plain name"):
        CellResult({}, {"../a": np.zeros(2)})
