# SPDX-License-Identifier: Apache-2.0
"""A probe whose records are on the disk: killed, taken up again, damaged."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.errors import DataFileError, UnlazyWarning
from unlazy.laziness.probe import Probe

from .training import CLASSES, epochs, network, started, watched


@pytest.fixture(scope="module")
def run():
    return epochs()


def test_a_killed_run_goes_on_as_if_it_had_not_been(run, tmp_path):
    points, x, y = run
    make = functools.partial(Probe, network, x=x, y=y, directions=CLASSES, order=2)
    first = make(points[0], folder=tmp_path, keep_params=True)
    for epoch in (1, 2):
        first(epoch, points[epoch])
    records = tmp_path / "records.jsonl"
    whole = records.read_bytes()
    records.write_bytes(whole[:-100])  # killed while it wrote the second record
    with pytest.warns(UnlazyWarning, match="records.jsonl' was written in part"):
        second = make(points[1], folder=tmp_path, keep_params=True)  # from a checkpoint
    assert list(second.history["step"]) == [0, 1]
    for epoch in (2, 3, 4):
        second(epoch, points[epoch])
    probed = watched()
    columns = set(second.history.columns) - {"seconds", "note"}
    for column in columns:
        np.testing.assert_allclose(
            second.history[column], probed.history[column], rtol=1e-5, atol=1e-6, err_msg=column
        )
    report = make(points[0], folder=tmp_path).report(order=1)
    assert report.drift.steps == (1, 2, 3)
    assert report.movement.relative == pytest.approx(second.history["movement"][-1], rel=1e-5)


def test_a_step_that_is_there_already_is_replaced_with_all_later_ones(run, tmp_path):
    points, x, y = run
    probe = Probe(network, points[0], x, y, folder=tmp_path, keep_params=True)
    for epoch in (1, 2, 3):
        probe(epoch, points[epoch])
    with pytest.warns(UnlazyWarning, match="1 records of later steps, up to 3, were dropped"):
        probe(2, points[4])
    probe(2, points[4])
    assert list(probe.history["step"]) == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.glob("params-*")) == [
        "params-1.npz",
        "params-2.npz",
    ]
    again = Probe(network, points[0], x, y, folder=tmp_path)
    assert [r.as_json() for r in again.history] == [r.as_json() for r in probe.history]


def test_a_folder_of_another_model_or_of_other_data_is_refused(run, tmp_path):
    points, x, y = run
    Probe(network, points[0], x, y, folder=tmp_path)
    with pytest.raises(
        ValueError, match=r"`folder` must.*float32\[8, 16\] at first/W, not float32\[8, 8\]"
    ):
        Probe(network, started(width=8), x, y, folder=tmp_path)
    with pytest.raises(ValueError, match=r"`folder` must.*another `x`"):
        Probe(network, points[0], x + 1, y, folder=tmp_path)
    with pytest.raises(ValueError, match=r"`folder` must.*another `order`, 1 and not 2"):
        Probe(network, points[0], x, y, order=2, folder=tmp_path)
    with pytest.raises(ValueError, match="`f` must be the model of the records"):
        Probe(lambda p, x: 2 * network(p, x), points[0], x, y, folder=tmp_path)


@pytest.mark.parametrize("name", ["probe.json", "start.npz", "records.jsonl"])
def test_a_damaged_file_is_named(run, tmp_path, name):
    points, x, y = run
    Probe(network, points[0], x, y, folder=tmp_path)
    (tmp_path / name).write_bytes(b"{nothing}\n")
    with pytest.raises(DataFileError, match=f"cannot read '.*{name}'"):
        Probe(network, points[0], x, y, folder=tmp_path)


def test_files_hold_plain_numbers(run, tmp_path):
    points, x, y = run
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), points[0])
    xh = jnp.asarray(x, jnp.bfloat16)
    Probe(network, half, xh, y, folder=tmp_path)
    with np.load(tmp_path / "start.npz", allow_pickle=False) as found:
        assert "params/first/W" in found.files
    again = Probe(network, started(1), x, y, folder=tmp_path / "other")
    assert again.history.records[0].movement == 0
    moved = Probe(network, jax.tree.map(jnp.zeros_like, half), xh, y, folder=tmp_path)
    assert moved(1, half).movement == 0  # the start is the one that was stored
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1]
