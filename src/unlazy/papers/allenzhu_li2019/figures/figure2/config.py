# SPDX-License-Identifier: Apache-2.0
"""The configuration of Figure 2, and its cells."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from unlazy.experiments import Cell
from unlazy.papers.allenzhu_li2019.figures.linear_models import parts
from unlazy.papers.allenzhu_li2019.figures.samples import Task
from unlazy.papers.shared.grids.lattice import between
from unlazy.papers.shared.grids.tuning import Grid

NAME, VERSION = "allenzhu_li2019/figure2", 1
NETWORKS: tuple[str, ...] = ("3resnet", "3layer", "2layer")
KERNELS = tuple(f"{layers}({mode})" for mode in ("NTK", "last") for layers in NETWORKS)
TANGENT = tuple(method for method in KERNELS if method.endswith("(NTK)"))  # they couple outputs

_GRIDS: dict[str, Grid | dict[str, Grid]] = {
    # All of RN-33: 12 rates by 13 decays.
    "full": Grid(between(1e-4, 0.5), (0.0, *between(1e-5, 5e-2)), 1),
    # For two cores.
    "kernel": Grid(between(2e-3, 1e-2), (1e-4, 1e-3), 0),
    "one": Grid((0.05,), (2e-3,), 0),
    # About the optima of 3layer at m = 100 to 1000, which do not move with the width: with every
    # entry from N(0, 1/m) the tangent kernel has a limit.
    "narrow": {
        "all": Grid(between(0.02, 0.1), between(1e-3, 5e-2), 1),
        "hidden": Grid(between(5e-3, 0.2), between(2e-2, 1e-1), 1),
    },
    "pair": {"all": Grid((0.05,), (1e-2, 2e-2), 0), "hidden": Grid((0.05,), (2e-2, 5e-2), 0)},
    "reduced": {
        "3resnet(all)": Grid(between(0.02, 0.2), between(2e-3, 2e-2), 1),
        "3layer(all)": Grid(between(0.02, 0.2), between(2e-3, 5e-2), 1),
        "2layer(all)": Grid(between(0.005, 0.05), between(2e-2, 1e-1), 1),
        "3resnet(hidden)": Grid(between(0.05, 0.5), between(1e-4, 2e-3), 1),
        "3layer(hidden)": Grid(between(0.05, 0.5), between(1e-3, 1e-2), 1),
        "2layer(hidden)": Grid(between(0.02, 0.2), between(5e-4, 5e-3), 1),
    },
    # About the optima of m = 100 from the start by fan-in; from a rate of 0.02 on 3resnet(all)
    # diverges.
    "fan-in": {
        "3resnet(all)": Grid(between(5e-3, 0.02), between(1e-2, 2e-1), 1),
        "3layer(all)": Grid(between(0.02, 0.1), between(2e-2, 1e-1), 1),
        "2layer(all)": Grid(between(5e-3, 0.05), between(2e-2, 1e-1), 1),
        "3resnet(hidden)": Grid(between(0.05, 0.5), between(1e-4, 2e-3), 1),
        "3layer(hidden)": Grid(between(0.02, 0.2), between(1e-3, 1e-2), 1),
        "2layer(hidden)": Grid(between(0.05, 0.5), between(5e-4, 5e-3), 1),
    },
}


def grid_of(kind: str, method: str) -> Grid:
    """The grid of a kind for a method.

    "reduced" and "fan-in" have one per method, about its optimum; "narrow" and "pair" one per set
    of trained parameters.

    Source: RN-33 to RN-35 and, for the reduced ones, RN-64 and RN-65, arXiv:1905.10337 section 8.
    """
    found = _GRIDS[kind]
    if isinstance(found, Grid):
        return found
    return found[method if method in found else parts(method)[1]]


@dataclass(frozen=True)
class Training:
    """The cell of one method at one width: a grid, for `seeds` seeds from the cell's own on."""

    task: Task
    method: str
    width: int
    grid: Grid | None  # None for a kernel that is only solved exactly
    epochs: int
    seeds: int
    batch_size: int = 50

    init: ClassVar[str] = "experiment"


@dataclass(frozen=True)
class Coupled:
    """The cell of a linearised network, solved exactly with the kernel of all pairs of outputs."""

    task: Task
    method: str
    width: int
    seeds: int

    init: ClassVar[str] = "experiment"


# Of footnote 15. The start is part of a cell's class, not of its fields, so that the digests of the
# other cells are what they were before there was a choice.
@dataclass(frozen=True)
class FanInTraining(Training):
    """The cell of one method at one width, from the start by fan-in."""

    init: ClassVar[str] = "fan-in"


@dataclass(frozen=True)
class FanInCoupled(Coupled):
    """The cell of a network linearised at the start by fan-in."""

    init: ClassVar[str] = "fan-in"


@dataclass(frozen=True)
class Limits:
    """The cell of all kernels of infinite width, and of what no dot-product kernel can beat."""

    task: Task
    seeds: int


@dataclass(frozen=True)
class Thin:
    """The grid that replaces the usual one for a network from a width on."""

    layers: str
    width: int
    grid: str


@dataclass(frozen=True)
class Panel:
    """One panel: which parameters are trained, on how many samples, at which widths."""

    mode: str  # "all" or "hidden"
    task: Task
    widths: tuple[int, ...]
    kernel_widths: tuple[int, ...]
    sgd_kernels: bool  # whether kernels are trained besides being solved
    n_kernels: int  # test samples for kernels, whose matrices are large; half as many to choose by

    @property
    def networks(self) -> tuple[str, ...]:
        """The trained methods."""
        return tuple(f"{layers}({self.mode})" for layers in NETWORKS)

    @property
    def kernel_task(self) -> Task:
        """The task with the numbers of samples for kernels."""
        return replace(self.task, n_validation=self.n_kernels // 2, n_test=self.n_kernels)


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    panels: tuple[Panel, ...]
    seeds: int
    epochs: int
    grid: str
    kernel_grid: str
    thin: tuple[Thin, ...] = ()
    alone: int = 10**9  # the width from which on every seed is a cell where grids are not thin
    margin: float = 1.0  # below which fraction of k alpha^2 the composite counts as learnt
    orders: bool = True  # whether it is large enough for claims about who learns what
    fan_in: bool = False  # whether variances are 1 over the inputs of a layer, or else 1/m
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset

    def trainings(self, panel: Panel, method: str, width: int) -> list[tuple[Training, int]]:
        """The cells of a method at a width, each with its first seed."""
        task, count = panel.task, self.seeds
        if method in KERNELS:
            task = panel.kernel_task
            grid = grid_of(self.kernel_grid, method) if panel.sgd_kernels else None
        else:
            kind = self._grid_of(method, width)
            grid = grid_of(kind, method)
            count = 1 if width >= self.alone and kind == self.grid else count
        cell = FanInTraining if self.fan_in else Training
        training = cell(task, method, width, grid, self.epochs, count)
        return [(training, seed) for seed in range(0, self.seeds, count)]

    def coupled(self, panel: Panel, method: str, width: int) -> Coupled:
        """The cell of a linearised network's exact solution."""
        cell = FanInCoupled if self.fan_in else Coupled
        return cell(panel.kernel_task, method, width, self.seeds)

    def limits(self, panel: Panel) -> Limits:
        """The cell of the kernels of infinite width."""
        return Limits(panel.task, self.seeds)

    def _grid_of(self, method: str, width: int) -> str:
        fitting = [t for t in self.thin if method.startswith(t.layers) and t.width <= width]
        return max(fitting, key=lambda thin: thin.width).grid if fitting else self.grid


def cells(config: Config) -> list[Cell]:
    networks: list[Cell] = []
    kernels: list[Cell] = []
    for panel in config.panels:
        label = f"infinite width, N = {panel.task.n}"
        kernels.append(Cell(NAME, VERSION, config.limits(panel), label=label))
        networks += _trainings(config, panel, panel.networks, panel.widths)
        kernels += _trainings(config, panel, KERNELS, panel.kernel_widths)
        kernels += [
            Cell(
                *(NAME, VERSION, config.coupled(panel, method, width)),
                label=f"{method}, outputs coupled, m = {width}, N = {panel.task.n}",
            )
            for width in panel.kernel_widths
            for method in TANGENT
        ]
    return networks + kernels


def _trainings(
    config: Config, panel: Panel, methods: tuple[str, ...], widths: tuple[int, ...]
) -> Iterator[Cell]:
    for width in widths:
        for method in methods:
            for training, seed in config.trainings(panel, method, width):
                exact = "" if training.grid else ", exact"
                label = f"{method}{exact}, m = {width}, N = {panel.task.n}, seed {seed}"
                label += "" if training.seeds == 1 else f" to {seed + training.seeds - 1}"
                yield Cell(NAME, VERSION, training, seed, label)


def notes(config: Config) -> list[str]:
    if config.fan_in:
        return ["the kernels of infinite width are those of the start N(0, 1/m)."]
    if not config.thin:
        return []
    grids = [(t.layers, t.width, grid_of(t.grid, f"{t.layers}(all)")) for t in config.thin]
    listed = "; ".join(
        f"{layers} from m = {width} on, {len(grid.rates)} rates by {len(grid.decays)} decays"
        for layers, width, grid in grids
    )
    return [f"some grids are thinner than the others': {listed}."]
