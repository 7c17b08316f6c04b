# SPDX-License-Identifier: Apache-2.0
"""Ten classes of MNIST: `NTKClassifier` beside scikit-learn's, in accuracy, time and memory.

`python -m benchmarks.mnist_classifiers --n 10000 --only ntk` runs one of them in a process of its
own, without which they run one after the other, each in such a process, so that peaks of memory are
told apart. What bounds it: n^3/3 operations of a factorisation, and the kernel of the test images.
"""

import argparse
import resource
import subprocess
import sys
import time

import jax
import jax.random as jr
import numpy as np

from benchmarks.timing import describe_machine
from unlazy import data
from unlazy.core.errors import DataFileError


def ntk():
    from unlazy.estimators import NTKClassifier

    return NTKClassifier(random_state=0)


def svc():
    from sklearn.svm import SVC

    return SVC(cache_size=1000)


def forest():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(300, n_jobs=-1, random_state=0)


MODELS = {"ntk": ntk, "svc": svc, "forest": forest}


def peak_memory() -> str:
    statistics = jax.devices()[0].memory_stats() or {}
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    device = statistics.get("peak_bytes_in_use")
    return f"{host:.1f} GB" + ("" if device is None else f", {device / 1e9:.1f} GB on the device")


def run(name: str, n: int) -> None:
    task = data.load("mnist", n_train=n, key=jr.key(0))
    # Entries of mean square one, as standardised columns have.
    size = task.x_train.shape[1] ** 0.5
    x, points = (size * np.asarray(v, np.float64) for v in (task.x_train, task.x_test))
    y, labels = (np.argmax(np.asarray(v), axis=1) for v in (task.y_train, task.y_test))
    model, start, used = MODELS[name](), time.perf_counter(), time.process_time()
    model.fit(x, y)
    fitted = time.perf_counter()
    accuracy = model.score(points, labels)
    end = time.perf_counter()
    print(
        f"{name:7} n = {n}: {100 * accuracy:.2f}% of {len(points)}, fit {fitted - start:.1f} s, "
        f"predict {end - fitted:.1f} s, {time.process_time() - used:.0f} s of processor, "
        f"peak {peak_memory()}"
        + (f", ridge {model.ridge_:.3g}" if hasattr(model, "ridge_") else ""),
        flush=True,
    )


def main(n: int = 2000) -> bool:
    try:
        data.load("mnist", n_train=1, n_test=1, key=jr.key(0))
    except DataFileError as error:
        print(f"left out: {error}")
        return True
    for name in MODELS:
        command = [sys.executable, "-m", __spec__.name, "--n", str(n), "--only", name]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        print(made.stdout, end="", flush=True)  # so that it can be kept
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--only", choices=MODELS)
    options = parser.parse_args()
    if options.only:
        run(options.only, options.n)
    else:
        print(describe_machine())
        main(options.n)
