# SPDX-License-Identifier: Apache-2.0
"""The learners of the papers: functions `f(params, x)` with an `init`."""

from unlazy.nets.partition import combine, partition
from unlazy.nets.two_layer import TwoLayer, TwoLayerParams

__all__ = ["TwoLayer", "TwoLayerParams", "combine", "partition"]
