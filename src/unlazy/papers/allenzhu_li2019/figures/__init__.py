# SPDX-License-Identifier: Apache-2.0
"""The figures of the paper, as experiments with claims."""
