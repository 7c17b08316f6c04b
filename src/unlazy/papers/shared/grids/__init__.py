# SPDX-License-Identifier: Apache-2.0
"""What papers share that tune learning rates and weight decays over a grid of runs."""
