# SPDX-License-Identifier: Apache-2.0
"""A probe in a loop of PyTorch, whose modules hold their parameters and their mode."""

import warnings

import numpy as np
import pytest

import unlazy as ul
from unlazy.core.errors import UnlazyWarning
from unlazy.laziness import diagnose
from unlazy.laziness.probe import Probe

from . import ladder
from .training import CLASSES, epochs


@pytest.fixture(scope="module")
def run():
    return epochs()


@pytest.fixture
def module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(ladder.INPUTS, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(8, CLASSES),
    )


@pytest.fixture
def train(run):
    import torch

    _, x, y = run

    def epoch(module):
        optimizer = torch.optim.Adam(module.parameters(), 0.05)
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(torch.as_tensor(x)), torch.as_tensor(y))
            loss.backward()
            optimizer.step()

    return epoch


def test_a_module_in_training_mode_is_measured_in_evaluation_mode(run, module, train):
    _, x, y = run
    start = ul.laziness.snapshot(module)
    probe = Probe(module, None, x, y, directions=CLASSES)
    for epoch in (1, 2):
        train(module)
        before = ul.laziness.snapshot(module)
        record = probe(epoch)
        assert module.training
        after = ul.laziness.snapshot(module)
        assert all((before[name] == after[name]).all() for name in before)
    report = diagnose(module.eval(), start, module, x, y, order=1)
    assert report.flips is not None
    assert record.kernel.centred == pytest.approx(report.drift.whole.centred, rel=1e-4)
    assert record.errors == pytest.approx(report.taylor.errors[1:], rel=1e-4)
    assert record.movement == pytest.approx(report.movement.relative, rel=1e-5)
    assert record.flips == pytest.approx(report.flips.share)
    assert probe.report(order=1).verdict.kind == report.verdict.kind
    record = probe(3, after)
    assert record.kernel == probe(3, module).kernel  # a state, or the module that is in it


def test_a_module_resumes_from_its_folder(run, module, train, tmp_path):
    _, x, y = run
    first = Probe(module, None, x, y, folder=tmp_path)
    train(module)
    first(1)
    second = Probe(module, None, x, y, folder=tmp_path)
    assert second.history["movement"][1] > 0
    assert second(2).movement == pytest.approx(first.history["movement"][1])


def test_a_module_that_diverges_is_noted(run, module, train):
    _, x, y = run
    probe = Probe(module, None, x, y)
    train(module)
    state = ul.laziness.snapshot(module)
    state["1.running_var"][0] = float("nan")
    with pytest.warns(UnlazyWarning, match="nan or inf at 1/running_var"):
        assert np.isnan(probe(1, state).movement)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probe(2, module)
    with pytest.raises(ValueError, match=r"`params` must hold every parameter.*4/weight"):
        probe(3, {name: value for name, value in state.items() if name != "4.weight"})
