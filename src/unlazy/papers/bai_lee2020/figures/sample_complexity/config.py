# SPDX-License-Identifier: Apache-2.0
"""The configuration of the sample-complexity figure, and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell

NAME, VERSION = "bai_lee2020/sample_complexity", 1

RIDGES = (1e-6, 1e-4, 1e-2, 1e-1)  # times the mean eigenvalue of the kernel
EVERY = ("ntk/ridge", "ntk/loss", "kq/ridge", "kq/loss", "f_Q", "signed")
UNTUNED = ("ntk/ridge", "f_Q")


@dataclass(frozen=True)
class Task:
    """The cell of one target and seed: what each method makes of the first n samples.

    Methods: "ntk" and "kq" are the infinitely wide kernels of the linear and of the quadratic term,
    with squared loss ("ridge") or the loss of f^Q ("loss"); "f_Q" is the quadratic model of a
    network, and "signed" that network with one draw of the signs.
    """

    target: str  # "two-xor", on the cube; "product" or "quartic", on the sphere of radius sqrt(d)
    inputs: int
    width: int
    ns: tuple[int, ...]
    penalties: tuple[float, ...]
    steps: int  # of L-BFGS
    methods: tuple[str, ...] = EVERY
    ridges: tuple[float, ...] = RIDGES
    kernel_ns: tuple[int, ...] = ()  # where the kernels take other sizes than `ns`
    n_valid: int = 500
    n_test: int = 2000

    @property
    def classifies(self) -> bool:
        return self.target == "two-xor"

    @property
    def loss(self) -> str:
        return "logistic" if self.classifies else "pseudo-huber"

    def sizes(self, method: str) -> tuple[int, ...]:
        is_kernel = method not in ("f_Q", "signed")
        return self.kernel_ns or self.ns if is_kernel else self.ns


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    tasks: tuple[tuple[Task, int], ...]  # with the number of seeds; the first is 2-XOR
    dimensions: tuple[int, ...] = ()  # of the last panel, where samples to 10% error are counted
    dimension_seeds: int = 0

    def scans(self) -> list[Task]:
        return [scan(d) for d in self.dimensions]


def scan(d: int) -> Task:
    """2-XOR in d dimensions without tuning, at sample sizes around those that give 10% error."""
    return Task(
        *("two-xor", d, 100),
        ns=_around(2.0 * d**1.35),
        kernel_ns=_around(0.55 * d**2),
        penalties=(1e-5,),
        ridges=(1e-3,),
        steps=60,
        methods=UNTUNED,
        n_valid=10,
    )


def _around(n: float) -> tuple[int, ...]:
    return tuple(round(n * 1.18**k) for k in range(-4, 5))


def cells(config: Config) -> list[Cell]:
    scans = ((task, config.dimension_seeds) for task in config.scans())
    return [
        Cell(NAME, VERSION, task, seed, f"{task.target}, d = {task.inputs}, seed {seed}")
        for task, seeds in (*config.tasks, *scans)
        for seed in range(seeds)
    ]
