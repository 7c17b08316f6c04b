# SPDX-License-Identifier: Apache-2.0
"""Networks and linear models, tuned over a grid of learning rates and weight decays."""
