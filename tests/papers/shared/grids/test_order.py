# SPDX-License-Identifier: Apache-2.0
from unlazy.experiments import Cell
from unlazy.papers.shared.grids import order


def configs(networks, kernels):
    cells = order.mixed(
        [Cell("demo", 1, config=width) for width in networks],
        [Cell("demo", 1, config=name) for name in kernels],
        work=lambda cell: cell.config,
    )
    return [cell.config for cell in cells]


def test_heavy_networks_come_first_each_with_some_of_the_others(monkeypatch):
    monkeypatch.setattr(order, "_ALONG", 2)
    found = configs([3, 50, 7, 14], "abc")
    assert found == [50, 7, "a", 14, 3, "b", "c"]


def test_what_is_left_comes_last(monkeypatch):
    monkeypatch.setattr(order, "_ALONG", 1)
    assert configs([9, 1], "abc") == [9, 1, "a", "b", "c"]


def test_every_cell_comes_once():
    assert sorted(map(str, configs(range(1, 40), "xyz"))) == sorted(
        map(str, [*range(1, 40), *"xyz"])
    )


def test_without_networks_the_kernels_are_left():
    assert configs([], "ab") == ["a", "b"]
