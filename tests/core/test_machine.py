# SPDX-License-Identifier: Apache-2.0
from unlazy.core.machine import default_memory


def test_the_default_budget_is_a_share_of_this_machine():
    assert 2**26 < default_memory() < 2**44
