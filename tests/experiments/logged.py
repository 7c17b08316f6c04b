# SPDX-License-Identifier: Apache-2.0
"""The toy with slower cells that log their beginnings and ends to the file that LOGGED names.

`python -m logged OUT ADDRESS` runs it on a cluster.
"""

import dataclasses
import errno
import os
import sys
import time

import toy

from unlazy.experiments import Experiment, Preset, handing_out, run_experiment
from unlazy.experiments.progress import LineReporter


def log(*words):
    handle = os.open(os.environ["LOGGED"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(handle, (" ".join(map(str, words)) + "\n").encode())
    os.close(handle)


def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run(config, *, seed, progress):
    log("begin", config.index, os.getpid())
    time.sleep(0.4)
    if config.index == 101:
        raise ZeroDivisionError("by zero.")
    if config.index == 103:
        os.fsync = full
    if config.index == 105:
        os.kill(os.getpid(), 9)
    result = toy.run(config, seed=seed, progress=progress)
    log("end", config.index, os.getpid())
    return result


def cells(config):
    return [
        dataclasses.replace(cell, experiment="toy/logged", config=chosen)
        for cell in toy.cells(config)
        if (chosen := dataclasses.replace(cell.config, index=cell.config.index + config.first))
    ]


@dataclasses.dataclass(frozen=True)
class Config(toy.ToyConfig):
    first: int = 0


def preset(**fields):
    return Preset(Config(n=1000, **fields), about="", takes="")


EXPERIMENT: Experiment = dataclasses.replace(
    toy.EXPERIMENT,
    name="toy/logged",
    run=run,
    cells=cells,
    presets={
        "quick": preset(cells=8),
        "failing": preset(cells=3, first=100),
        "full": preset(cells=1, first=103),
        "deadly": preset(cells=1, first=105),
    },
)

if __name__ == "__main__":
    import logged

    if os.environ.get("SHARED") == "False":
        handing_out.marker_in = lambda root: root / "nowhere"
    done = run_experiment(
        logged.EXPERIMENT,
        "quick",
        out=sys.argv[1],
        scheduler=sys.argv[2],
        progress=LineReporter(sys.stderr),
    )
    sys.stderr.write(f"computed {done.computed}\n")
