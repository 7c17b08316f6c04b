# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data, escape
from unlazy.experiments import Store, run_experiment
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.figures import extraction
from unlazy.papers.bai_lee2020.figures.extraction.claims import theory
from unlazy.papers.bai_lee2020.figures.extraction.config import Extraction
from unlazy.papers.bai_lee2020.figures.extraction.run import SIGMA, movement
from unlazy.papers.shared.settings import reproducible

# Much compilation; the figure of the coupling is run each time.


def quiet(done, total):
    del done, total


def table(*arguments, seed=0, **options):
    config = Extraction(*arguments, **options)
    return extraction.run(config, seed=seed, progress=quiet).table


@pytest.fixture(scope="module")
def smoke(smoke_store):
    """The report of the smallest preset and its cells, computed once."""
    out = smoke_store
    report = run_experiment(extraction.EXPERIMENT, "smoke", out=out)
    config = extraction.EXPERIMENT.preset("smoke").config
    results = {cell: Store(out).read(cell) for cell in extraction.cells(config)}
    return report, config, results


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    report, _, _ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 7 + 1 + 2 + 2 * 2
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_the_activation_is_the_sine_of_the_record():
    z = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(SIGMA(jnp.asarray(z, jnp.float32)), np.sin(z + 0.7), atol=1e-6)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_sizes_of_lower_terms_are_their_standard_deviations_over_the_multipliers(k):
    # E (f^(j))^2 = (1/m) sum_r Var(z_+^j - z_-^j) (sigma^(j)(w0_r x)/j! (w_r x)^j)^2 for j < k. The
    # mean square over 4000 draws has a relative noise below sqrt(2/4000) = 2.3%, its root half of
    # it; 5 of these fail with probability below 1e-6.
    m, n, d, seed = 32, 7, 6, 3
    measured = table("sampled", k, (m,), n=n, draws=4000, seed=seed)
    key_x, key_nets = jr.split(jr.fold_in(jr.key(43), seed))
    with reproducible(x64=True):
        x = np.asarray(data.sphere(n, d, key=key_x))
        key_W, _ = jr.split(jr.fold_in(key_nets, m))
        W0 = np.asarray(jr.normal(key_W, (m, d)))
    z_plus, z_minus = escape.matched_moments(k)
    Z0, Z = x @ W0.T, m ** (-1 / (2 * k)) * 1.5 * (x[:, :1] + x[:, 1:2]) * np.ones((1, m))
    for j in range(1, k):
        variance = sum(z.moment(2 * j) - z.moment(j) ** 2 for z in (z_plus, z_minus))
        # Derivatives of the sine: a quarter of a turn each.
        values = np.sin(Z0 + 0.7 + j * math.pi / 2) / math.factorial(j) * Z**j
        expected = math.sqrt(variance * np.mean(np.sum(values**2, axis=1) / m))
        assert measured[f"f{j}"][0] == pytest.approx(expected, rel=0.06)


def test_signs_do_not_change_the_quadratic_term():
    # z_+ = +-1 and z_- = 0 at k = 2, so that the sampled f^(2) is not random: the block one.
    sampled, block = table("sampled", 2, (64, 256)), table("block", 2, (64, 256))
    np.testing.assert_allclose(sampled["f2"], block["f2"], rtol=1e-12)


def test_the_block_form_is_its_own_term_and_a_small_rest():
    for k in (2, 3, 4):
        block = table("block", k, (1024,))
        assert block["lower"][0] < 1e-12
        assert block["rest"][0] < 0.15 * block[f"f{k}"][0]
        own, rest, whole = block[f"f{k}"][0], block["rest"][0], block["f"][0]
        assert own - rest <= whole <= own + rest


def test_movements_have_the_size_of_their_order(x64):
    net = bai_lee2020.ExtractionNet.block(SIGMA, jnp.ones((64, 6)), 3)
    sizes = np.linalg.norm(movement(net), axis=1)
    np.testing.assert_allclose(sizes, 1.5 * math.sqrt(2) * 64 ** (-1 / 6), rtol=1e-12)


def test_theory_has_the_exponents_of_the_paper():
    # BL-43: k = 4: -.125, -.25, -.375, 0, and -.625 for symmetric nodes.
    assert [theory(4, j) for j in range(1, 6)] == [-0.125, -0.25, -0.375, 0, -0.625]


def test_a_cell_is_the_same_whatever_the_precision_of_the_user():
    off = table("sampled", 3, (32,))
    with jax.enable_x64(True):
        on = table("sampled", 3, (32,))
    for name in off:
        assert off[name].tobytes() == on[name].tobytes(), name


def test_the_claims_can_fail(smoke):
    _, config, results = smoke
    broken = {}
    for cell, result in results.items():
        columns = dict(result.table)
        if cell.config.form == "block":
            columns["rest"] = columns["f"]
            columns["lower"] = columns["f"]
        else:  # as if no moments were matched
            columns["f1"] = np.ones_like(columns["f1"])
        broken[cell] = type(result)(columns)
    verdicts = {claim.id: claim.verdict for claim in extraction.claims(config, broken)}
    for name in ("BL-43/k2-f1", "BL-43/k3-f1", "BL-43/k2-dominates", "BL-44/k3-rest"):
        assert verdicts[name] == "refuted", name
    assert verdicts["BL-44/k3-lower"] == "refuted"
    assert verdicts["BL-43/asymmetric"] == "holds"


def test_the_paper_preset_goes_to_65536_groups():
    config = extraction.EXPERIMENT.preset("paper").config
    assert config.widths[-1] == 2**16
    assert config.seeds > extraction.EXPERIMENT.preset("quick").config.seeds >= 8
    ids = {cell.config.order for cell in extraction.cells(config)}
    assert ids == {2, 3, 4, 5}
