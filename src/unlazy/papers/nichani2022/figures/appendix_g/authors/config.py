# SPDX-License-Identifier: Apache-2.0
"""The settings of the authors' code for Appendix G, and the cells.

Source: the published code of arXiv:2206.03688, github.com/eshnich/escape_NTK.
"""

from dataclasses import dataclass, replace

from unlazy import data
from unlazy.experiments import Cell
from unlazy.papers.nichani2022.figures.trials import AuthorsProblem

ORDERS = (0, 1, 2)  # 0 stands for the network itself


@dataclass(frozen=True)
class FreshPenalties:
    """A cell: f_L + f_Q with a fixed R3, and R1 of several strengths at fresh points per step."""

    problem: AuthorsProblem
    strengths: tuple[float, ...] = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # of R1
    lam3: float = 0.01
    fresh: int = 100  # points per step
    trials: int = 3  # the authors have 5
    learning_rate: float = 1.0
    steps: int = 20_000
    record_every: int = 1000


@dataclass(frozen=True)
class ImageCourse:
    """A cell: a CNN, or its Taylor model of that order, trained on two classes of CIFAR-10.

    The authors have cats against horses, and go through the images in one order in every epoch;
    here the classes are a setting, and each epoch has an order of its own.
    """

    order: int = 0
    images: str = ""  # which copy of the data
    classes: tuple[int, int] = (0, 1)
    n: int = 10_000
    n_test: int = 2000
    channels: int = 512
    layers: int = 4
    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 5e-3
    record_every: int = 5  # epochs

    @property
    def evaluated(self) -> tuple[int, ...]:
        """The orders that are evaluated: along the network's own path also its Taylor models."""
        return ORDERS if self.order == 0 else (self.order,)


@dataclass(frozen=True)
class AuthorsConfig:
    """The whole figure."""

    penalties: FreshPenalties
    images: ImageCourse  # of every order, on whichever copy of the data is found
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def authors_cells(config: AuthorsConfig, name: str, version: int) -> list[Cell]:
    one = config.penalties
    label = f"R1 on fresh points, {one.trials} trials, {len(one.strengths)} strengths"
    listed = [Cell(name, version, one, label=label)]
    copy = data.fingerprint("cifar10")
    for order in ORDERS:
        model = "CNN" if order == 0 else f"its Taylor model of order {order}"
        course = replace(config.images, order=order, images=copy)
        listed.append(Cell(name, version, course, label=f"CIFAR-10, {model}"))
    return listed
