# SPDX-License-Identifier: Apache-2.0
from unlazy.experiments import Cell
from unlazy.papers.grids.order import mixed


def test_heavy_networks_come_first_and_kernels_between_them():
    networks = [Cell("demo", 1, config=width) for width in (3, 50, 7)]
    kernels = [Cell("demo", 1, config=name) for name in "abcde"]
    found = mixed(networks, kernels, work=lambda cell: cell.config)
    assert [cell.config for cell in found] == [50, "a", 7, "b", 3, "c", "d", "e"]
