# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.experiments import CellResult
from unlazy.papers.allenzhu_li2019.figures.figure2.config import Grid
from unlazy.papers.allenzhu_li2019.figures.figure3 import EXPERIMENT
from unlazy.papers.allenzhu_li2019.figures.figure3.claims import Curves
from unlazy.papers.allenzhu_li2019.figures.figure3.config import Sweep
from unlazy.papers.allenzhu_li2019.figures.figure3.run import run
from unlazy.papers.allenzhu_li2019.figures.samples import Task

QUICK = EXPERIMENT.preset("quick").config


def quiet(done, total):
    del done, total


def invented(error):
    """Results of the quick preset whose errors, over k alpha^2, are a function of beta."""
    results = {}
    for cell in EXPERIMENT.cells(QUICK):
        sweep = cell.config
        pairs = [(beta, s) for beta in sweep.betas for s in range(sweep.seeds)]
        errors = np.array([0.72 * error(beta) for beta, _ in pairs])
        table = {
            "beta": np.array([beta for beta, _ in pairs]),
            "seed": np.array([s for _, s in pairs]),
            "validation": errors,
            "test": errors,
        }
        kernel = np.full((len(sweep.betas), sweep.seeds), 0.8)
        results[cell] = CellResult(table, {"kernel": kernel})
    return results


def verdicts(error):
    listed = EXPERIMENT.claims(QUICK, invented(error))
    return {claim.id.removeprefix("RN-66/3resnet(all)-"): claim.verdict for claim in listed}


def test_the_claims_hold_for_a_jump_at_alpha_and_fail_for_another():
    assert set(verdicts(lambda beta: 0.05 if beta >= 0.3 else 1.5).values()) == {"holds"}
    late = verdicts(lambda beta: 0.05 if beta > 0.35 else 1.5)
    assert (late["above"], late["jump"], late["below"]) == ("refuted", "refuted", "holds")
    assert late["clearly-above"] == "holds"
    assert late["place"] == "holds"
    assert verdicts(lambda beta: 0.05 if beta > 0.6 else 1.5)["place"] == "refuted"
    early = verdicts(lambda beta: 0.05 if beta >= 0.2 else 1.5)
    assert (early["above"], early["jump"], early["below"]) == ("holds", "refuted", "refuted")


def test_curves_are_by_beta_and_seed():
    curves = Curves(QUICK, QUICK.sweeps[0], invented(lambda beta: 1 + beta))
    np.testing.assert_allclose(
        curves.errors(), (1 + np.array(QUICK.sweeps[0].betas))[:, None] * [[1] * 3]
    )
    np.testing.assert_allclose(curves.kernel(), 0.8 / 0.72)


def test_the_paper_preset_sweeps_beta_by_tenths():
    config = EXPERIMENT.preset("paper").config
    assert all(sweep.betas == tuple(i / 10 for i in range(11)) for sweep in config.sweeps)
    assert [(s.method, s.task.n, s.task.inputs) for s in config.sweeps] == [
        ("3resnet(all)", 500, 30),
        ("3resnet(hidden)", 1000, 30),
    ]
    assert len(EXPERIMENT.cells(config)) == 6  # a seed each


@pytest.mark.slow
def test_a_sweep_is_the_betas_one_by_one():
    # Lanes of one program on the same batches: what each gives alone, to float32.
    task = Task(60, 12, n_validation=20, n_test=50)
    grid = Grid((0.02, 0.05), (1e-3,), 0)
    both = run(Sweep("3resnet(all)", task, 8, (0.2, 1.0), grid, 5, 2), seed=0, progress=quiet).table
    alone = run(Sweep("3resnet(all)", task, 8, (1.0,), grid, 5, 1), seed=1, progress=quiet).table
    rows = (both["beta"] == 1.0) & (both["seed"] == 1)
    np.testing.assert_allclose(both["test"][rows], alone["test"], rtol=1e-3)
    assert not np.allclose(both["test"][both["beta"] == 0.2], both["test"][both["beta"] == 1.0])
