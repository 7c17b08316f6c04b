# SPDX-License-Identifier: Apache-2.0
"""Arora, Du, Hu, Li, Wang 2019, "Fine-Grained Analysis of ..." (arXiv:1901.08584): its figures."""
