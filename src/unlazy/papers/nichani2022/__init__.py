# SPDX-License-Identifier: Apache-2.0
"""Nichani, Bai, Lee 2022, "Identifying good directions ..." (arXiv:2206.03688): its figures."""
