# SPDX-License-Identifier: Apache-2.0
"""Bai, Lee 2020, "Beyond Linearization ..." (arXiv:1910.01619): experiments on its statements.

The paper has no figures of its own; these are the ones that its theorems ask for.
"""
