# SPDX-License-Identifier: Apache-2.0
"""Experiments for workers: a long one, and a short one that is for the processor."""

import dataclasses
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from unlazy.experiments import Cell, CellResult, Experiment, Preset


class Unprintable(Exception):
    """An error that cannot be shown, nor told where it comes from."""

    def __str__(self):
        raise RuntimeError

    def add_note(self, note):
        raise RuntimeError(note)


class Special(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@dataclass(frozen=True)
class Sleep:
    index: int
    seconds: float
    fault: str = ""


@dataclass(frozen=True)
class Config:
    name: str
    cells: int
    seconds: float
    fault: str = ""


def cells(config):
    return [
        Cell(config.name, 1, Sleep(index, config.seconds, config.fault), index, f"cell {index}")
        for index in range(config.cells)
    ]


def left_behind():
    """Leave a process behind that outlives the cell."""
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)


def fail(fault):
    """Do what cells should not do; whatever returns is no failure."""
    match fault:
        case "unpicklable":
            raise Special(1, 2)
        case "unprintable":
            raise Unprintable
        case "leaving":
            raise SystemExit(3)
        case "dividing":
            1 / 0  # noqa: B018  # it raises
        case "forking":
            left_behind()
        case "forking and dying":
            left_behind()
            os.kill(os.getpid(), 9)
        case "deaf":
            os.closerange(3, 256)
        case "reading":
            assert sys.stdin.readline() == ""
            assert os.read(0, 1) == b""
            assert subprocess.run(["cat"], check=True, stdout=subprocess.PIPE).stdout == b""
        case "pool":
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert pool.map(abs, [-1]) == [1]


def run(config, *, seed, progress):
    sys.stdout.write("a cell that prints\n")
    time.sleep(config.seconds)
    fail(config.fault)
    if config.fault == "one of many" and seed == 0:
        os.kill(os.getpid(), 9)
    progress(1, 1)
    cores = len(os.sched_getaffinity(0)) if config.seconds == 0 else 0
    return CellResult({"value": np.array([float(seed)]), "cores": np.array([cores])}, {})


FAULTS = (
    *("unpicklable", "unprintable", "leaving", "dividing", "forking", "forking and dying", "deaf"),
    *("reading", "pool"),
)


def refuse(*_):
    raise ArithmeticError("these claims cannot be checked.")


def experiment(name, count, seconds, *, on_processor=False):
    return Experiment(
        name=name,
        title="Cells that sleep",
        version=1,
        presets={
            "smoke": Preset(Config(name, count, seconds), about="", takes=""),
            "one of many": Preset(Config(name, 4, 0.3, "one of many"), about="", takes=""),
            **{fault: Preset(Config(name, 1, 0.0, fault), about="", takes="") for fault in FAULTS},
        },
        cells=cells,
        run=run,
        claims=lambda *_: [],
        plot=lambda *_: Figure(),
        on_processor=on_processor,
    )


LONG = experiment("toy/long", 3, 0.5)
SHORT = experiment("toy/short", 2, 0.0, on_processor=True)
UNCLAIMED = dataclasses.replace(experiment("toy/unclaimed", 1, 0.2), claims=refuse)


def cells_of(name):
    chosen = LONG if name == LONG.name else SHORT
    return cells(chosen.presets["smoke"].config)
