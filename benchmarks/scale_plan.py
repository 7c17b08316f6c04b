# SPDX-License-Identifier: Apache-2.0
"""What kernel regression on 10^7 samples, and a grid of 10^5 cells, take on 8 to 512 GPUs.

`python -m benchmarks.scale_plan` prints the tables of docs/internet-scale.md from the costs below;
`--tile_seconds 0.003` and the like put measured costs in their place, `--cell_times FILE` the times
of measured cells, and `--write` puts the tables of the defaults into the page.
"""

import argparse
import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import schedules

PAGE = Path(__file__).parents[1] / "docs" / "internet-scale.md"
GPUS = (8, 32, 128, 512)
CELLS = 100_000
TILE = 8192  # rows and columns
HOUR = 3600.0


def cost(value: float, source: str) -> Any:
    return dataclasses.field(default=value, metadata={"source": source})


@dataclasses.dataclass(frozen=True)
class Costs:
    """Every number that goes in. Limits of the hardware are the least that a cost can be."""

    flops: float = cost(790e12, "limit of an H200: bf16 products, operations per second")
    flops64: float = cost(67e12, "limit of an H200: float64 products, operations per second")
    memory: float = cost(141e9, "limit of an H200: bytes")
    memory_rate: float = cost(4.8e12, "limit of an H200: bytes per second from its memory")
    link: float = cost(450e9, "limit: NVLink, bytes per second each way (900 GB/s for both)")
    network: float = cost(50e9, "limit: 400 Gb/s per GPU between nodes, bytes per second")
    per_node: float = cost(8, "GPUs that NVLink joins")
    latency: float = cost(20e-6, "assumed: seconds per step of a collective")
    passes: float = cost(6, "assumed: passes over a float32 tile for the kernel's arithmetic")
    tile_seconds: float = cost(
        1.33e-3,
        "measured: seconds per tile, depth-3 NTK, d = 784, 10 columns, one H200; 0: the limits",
    )
    reduce_rate: float = cost(0, "measured bytes per second of an all-reduce; 0: from the limits")
    iterations: float = cost(
        40, "assumed: products until the solve converges; 19 and 26 at 10^6 samples"
    )
    landmarks: float = cost(20_000, "assumed at 10^6 samples; they grow like the square root")
    squares: float = cost(
        5.6, "measured on one H200: float64 matrices of m by m held in the set-up"
    )
    mtbf: float = cost(
        50_000 * HOUR,
        "seconds between failures of a GPU: 419 in 54 days of 16384, arXiv:2407.21783 sec. 3.3.4",
    )
    cell_seconds: float = cost(60, "assumed: mean time of a cell on one GPU")
    cell_spread: float = cost(0.5, "assumed: standard deviation of that time over its mean")
    cell_memory: float = cost(4e9, "assumed: bytes of a cell")
    tasks_per_second: float = cost(
        57, "measured: empty cells on two workers of Dask and two cores, all told"
    )
    store_per_cell: float = cost(6, "assumed: operations on the store, without renewals of a lease")
    lease: float = cost(60, "the library's: seconds until a cell of a dead machine is free")
    renewal: float = cost(5, "the library's: seconds between two renewals of a lease")
    repair: float = cost(600, "assumed: seconds until a failed worker is back")


class Problem(NamedTuple):
    """Kernel regression with the depth-3 NTK: samples, features, columns of labels."""

    n: float = 1e7
    d: float = 784
    c: float = 10


def landmarks(p: Problem, costs: Costs) -> float:
    return costs.landmarks * math.sqrt(p.n / 1e6)


def tile_seconds(p: Problem, costs: Costs) -> float:
    """A tile of the kernel and its two thin products, one for it and one for its mirror."""
    if costs.tile_seconds:
        return costs.tile_seconds
    entries = TILE**2
    product = 2 * entries * 4 * p.d / costs.flops  # high and low parts: four products in one
    return product + 4 * entries * (costs.passes + 2) / costs.memory_rate


def tiles_per_gpu(p: Problem, gpus: int) -> int:
    rows = math.ceil(p.n / TILE)
    return math.ceil(rows * (rows + 1) / 2 / gpus)


def all_reduce(size: float, gpus: int, costs: Costs) -> float:
    """Seconds to add `size` bytes over all GPUs: rings in each node, then between the nodes."""
    within = min(gpus, costs.per_node)
    nodes = gpus / within
    steps = costs.latency * (2 * (within - 1) + 2 * (nodes - 1))
    if costs.reduce_rate:
        return steps + size / costs.reduce_rate
    inside = 2 * (within - 1) / within * size / costs.link
    return steps + inside + 2 * (nodes - 1) / nodes * size / within / costs.network


def memory(p: Problem, costs: Costs) -> dict[str, float]:
    """Bytes on each GPU, however many there are: all of these are replicated."""
    return {
        "samples": 2 * 4 * p.n * p.d,  # in float32, as they were given and up to whole tiles
        "vectors": 10 * 8 * p.n * p.c,  # the state of the iterations, and what a step makes
        "factor": 8 * costs.squares * landmarks(p, costs) ** 2,  # in its set-up
        "tiles": 3 * 4 * TILE**2,
    }


class Solve(NamedTuple):
    """Seconds of the parts of a solve."""

    tiles: float
    reduce: float
    preconditioner: float
    setup: float
    total: float


def solve(p: Problem, gpus: int, costs: Costs) -> Solve:
    m, tile = landmarks(p, costs), tile_seconds(p, costs)
    tiles = tiles_per_gpu(p, gpus) * tile
    reduce = all_reduce(8 * p.n * p.c, gpus, costs)
    # Both products with the n x m kernel compute it anew, a share of it on each GPU; the factor is
    # read in both solves.
    strips = 2 * math.ceil(p.n / TILE / gpus) * math.ceil(m / TILE) * tile
    # High and low parts of each column: a sum of m rows, and n rows gathered, which moves half of
    # what a sum of them would.
    moved = all_reduce(16 * m * p.c, gpus, costs) + all_reduce(16 * p.n * p.c, gpus, costs) / 2
    preconditioner = strips + moved + 8 * m**2 / costs.memory_rate
    # K_mn K_nm as a float64 product, split and summed, and two Cholesky factors on each GPU.
    setup = (2 * p.n * m**2 / gpus + 2 * m**3 / 3) / costs.flops64 + strips / 2
    setup += all_reduce(8 * m**2, gpus, costs)
    total = setup + costs.iterations * (tiles + reduce + preconditioner)
    return Solve(tiles, reduce, preconditioner, setup, total)


def largest(fits: Any, low: float = 1.0, high: float = 1e12) -> float:
    """The largest number for which `fits` holds, to a relative 1e-6, if it holds below it."""
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def limits(p: Problem, gpus: int, costs: Costs) -> dict[str, float]:
    """Where each resource gives way: the largest number of samples, or of GPUs, that it bears."""

    def parts(n: float) -> dict[str, float]:
        return memory(p._replace(n=n), costs)

    found = {
        "memory of one GPU: all replicated arrays": largest(
            lambda n: sum(parts(n).values()) <= costs.memory
        )
    }
    for name in ("samples", "factor", "vectors"):
        held = largest(lambda n, name=name: parts(n)[name] <= costs.memory)
        found[f"memory of one GPU: {name} alone"] = held
    found["memory of all GPUs: half of the kernel, kept in float32"] = largest(
        lambda n: 2 * n**2 <= gpus * costs.memory
    )
    found["time: a solve within a day"] = largest(
        lambda n: solve(p._replace(n=n), gpus, costs).total <= 24 * HOUR
    )
    return found


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def span(seconds: float) -> str:
    for unit, size in [("h", HOUR), ("min", 60.0), ("s", 1.0)]:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{1000 * seconds:.3g} ms"


def costs_table(costs: Costs) -> str:
    fields = dataclasses.fields(costs)
    rows = [[f"`{f.name}`", f"{getattr(costs, f.name):.6g}", f.metadata["source"]] for f in fields]
    return table(["cost", "value", "what it is"], rows)


def regression_table(costs: Costs, p: Problem) -> str:
    rows = []
    for gpus in GPUS:
        s, traffic = solve(p, gpus, costs), 2 * (gpus - 1) / gpus * 8 * p.n * p.c
        times = [span(s.tiles), span(s.reduce), span(s.preconditioner), span(s.setup)]
        failures = s.total * gpus / costs.mtbf
        last = [span(s.total), f"{traffic / 1e9:.2g} GB", f"{failures:.2g}"]
        rows.append([str(gpus), *times, *last])
    head = ["GPUs", "tiles of a product", "all-reduce", "preconditioner", "set-up"]
    return table([*head, "solve", "traffic per product and GPU", "failures per solve"], rows)


def memory_table(costs: Costs) -> str:
    rows = []
    for n in (1e6, 1e7, 1e8):
        parts = memory(Problem(n), costs)
        sizes = [f"{size / 1e9:.3g} GB" for size in [*parts.values(), sum(parts.values())]]
        rows.append([f"10^{round(math.log10(n))}", *sizes])
    return table(
        ["samples", "samples, twice", "vectors", "set-up of the factor", "tiles", "together"], rows
    )


def limits_table(costs: Costs) -> str:
    p = Problem()
    found = limits(p, GPUS[-1], costs)
    rows = [[name, f"{n:.1e} samples"] for name, n in sorted(found.items(), key=lambda i: i[1])]

    def hidden(gpus: float) -> bool:
        times = solve(p, int(gpus), costs)
        return 10 * times.reduce < times.tiles

    busy = costs.tasks_per_second * costs.cell_seconds
    rows += [
        [
            "time: the all-reduce a tenth of a product of 10^7 samples",
            f"{largest(hidden):.1e} GPUs",
        ],
        ["scheduler: every GPU has a cell", f"{busy:.1e} GPUs"],
        ["memory of one GPU: cells at a time", f"{costs.memory // costs.cell_memory:.0f} cells"],
    ]
    return table(["what gives way", "at"], rows)


def grid_table(costs: Costs, times: np.ndarray) -> str:
    mean, rows = float(times.mean()), []
    for gpus in GPUS:
        end, work = simulated(costs, times, gpus).end, times.sum() / gpus
        store = costs.store_per_cell + mean / costs.renewal
        rates = [f"{gpus / mean:.3g}", f"{gpus / mean * store:.3g}"]
        rows.append([str(gpus), span(work), span(end), span(end - work), *rates])
    head = ["GPUs", "work / GPUs", "simulated", "longer by"]
    return table([*head, "cells per second", "store operations per second"], rows)


def failures_table(costs: Costs, times: np.ndarray) -> str:
    rows = []
    for hours in (50_000, 1000, 24, 1):
        changed = dataclasses.replace(costs, mtbf=hours * HOUR)
        run = simulated(changed, times, GPUS[-1])
        expected, mean = schedules.expected_failures(times, hours * HOUR), [span(run.end)]
        for seconds in (
            schedules.expected_seconds(times, hours * HOUR, costs.repair),
            times.sum() + run.lost,
        ):
            mean.append(f"{100 * (1 - times.sum() / seconds):.2g}%")
        rows.append([f"{hours} h", f"{expected:.2g}", str(run.failures), *mean[1:], mean[0]])
    head = [
        "time between failures of a GPU",
        "failures expected",
        "simulated",
        "share lost expected",
    ]
    return table([*head, "simulated", "end of the grid"], rows)


def simulated(costs: Costs, times: np.ndarray, gpus: int) -> schedules.Schedule:
    gap = 1 / costs.tasks_per_second
    return schedules.simulate(
        times, gpus, mtbf=costs.mtbf, lease=costs.lease, repair=costs.repair, gap=gap
    )


def tables(costs: Costs, measured: np.ndarray | None = None) -> dict[str, str]:
    times = schedules.cell_times(CELLS, costs.cell_seconds, costs.cell_spread, measured)
    return {
        "costs": costs_table(costs),
        "regression": regression_table(costs, Problem()),
        "memory": memory_table(costs),
        "limits": limits_table(costs),
        "grid": grid_table(costs, times),
        "failures": failures_table(costs, times),
    }


def written(page: str, found: dict[str, str]) -> str:
    """The page with these tables between its marks."""
    for name, text in found.items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        after = rest.partition("<!-- end -->")[2]
        page = f"{before}{mark}\n{text}\n\n<!-- end -->{after}"
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cell_times", type=np.loadtxt, default=None)
    for field in dataclasses.fields(Costs):
        parser.add_argument(f"--{field.name}", type=float, default=field.default)
    given = vars(parser.parse_args())
    write, measured = given.pop("write"), given.pop("cell_times")
    if write:
        PAGE.write_text(written(PAGE.read_text(), tables(Costs())))
    else:
        print("\n\n".join(tables(Costs(**given), measured).values()))


if __name__ == "__main__":
    main()
