# SPDX-License-Identifier: Apache-2.0
"""The page for users of neural-tangents names all that it has, and only what we have."""

import functools
import re
from pathlib import Path

import pytest

import unlazy as ul

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-neural-tangents.md").read_text()

# What the modules of neural-tangents 0.6.5 import for their users, as its wheel has it.
NAMES = {
    "neural_tangents": (
        "batch empirical_kernel_fn empirical_nngp_fn empirical_ntk_fn empirical_ntk_vp_fn "
        "linearize NtkImplementation taylor_expand monte_carlo_kernel_fn Kernel"
    ),
    "neural_tangents.predict": (
        "gradient_descent gradient_descent_mse gradient_descent_mse_ensemble gp_inference "
        "max_learning_rate ODEState Gaussian"
    ),
    "neural_tangents.stax": (
        "parallel serial repeat ABRelu Abs Cos Elementwise ElementwiseNumerical Erf Exp "
        "ExpNormalized Gabor Gaussian Gelu Hermite LeakyRelu Monomial Polynomial Rbf "
        "RectifiedMonomial Relu Sigmoid_like Sign Sin Aggregate AvgPool Conv ConvLocal "
        "ConvTranspose Dense Identity Index DotGeneral Dropout Flatten GlobalAvgPool "
        "GlobalSelfAttention GlobalSumPool ImageResize LayerNorm SumPool Slice FanInConcat "
        "FanInProd FanInSum FanOut AggregateImplementation AttentionMechanism Padding "
        "PositionalEmbedding Bool Diagonal MaskedArray layer requires supports_masking unmask_fn"
    ),
    "neural_tangents.experimental": "empirical_ntk_fn_tf get_apply_fn_and_params",
}


@pytest.mark.parametrize("module", NAMES)
def test_the_table_of_a_module_has_each_of_its_names_once(module):
    section = PAGE.split(f"\n### {module}\n")[1].split("\n### ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(
        NAMES[module].split()
    )


def test_every_row_says_what_is_ours_or_none():
    for row in re.findall(r"^\| `\w+` \| (.*?) \|", PAGE.split("## Every public name")[1], re.M):
        assert row == "none" or row.startswith("`ul."), row


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\bul\.([A-Za-z_][\w.]*\w)", PAGE))))
def test_every_name_of_ours_exists(name):
    functools.reduce(getattr, name.split("."), ul)


@pytest.mark.parametrize("name", sorted(set(re.findall(r'ul\.activation\("(\w+)"\)', PAGE))))
def test_every_activation_exists(name):
    options = {"leaky_relu": {"slope": 0.1}, "abrelu": {"slopes": (0.1, 1.0)}}
    options["rectified_power"] = {"power": 2}
    assert callable(ul.activation(name, **options.get(name, {})))
