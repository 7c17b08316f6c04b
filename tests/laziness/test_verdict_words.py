# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from unlazy.laziness.measurements.twins import KERNEL_START, LINEAR, NETWORK, TEST, Score, Twins
from unlazy.laziness.verdicts import good_in_words


@pytest.mark.parametrize(
    ("network", "kernel", "fitted_to", "words"),
    [
        (0.692, 0.98, "all 500 rows", "98.0% of the test data. A kernel would do better here."),
        (0.87, 0.89, "all 500 rows", "A kernel would do as well here."),
        (0.9, 0.87, "all 500 rows", "A kernel would do as well here."),
        (0.98, 0.692, "all 500 rows", "A kernel would not do as well here."),
        (
            0.98,
            0.692,
            "500 of 60,000 rows",
            "A kernel that is fitted to 500 of 60,000 rows alone would not do as well here.",
        ),
    ],
)
def test_a_kernel_is_called_better_as_good_or_worse(network, kernel, fitted_to, words):
    accuracies = {NETWORK: network, LINEAR: 0.5, KERNEL_START: kernel}
    scores = (Score(name, TEST, share, math.nan, 400) for name, share in accuracies.items())
    assert good_in_words(Twins(tuple(scores), fitted_to, {})).endswith(words)
