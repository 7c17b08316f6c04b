# SPDX-License-Identifier: Apache-2.0
"""A sweep of the output scale: where a model becomes lazy, and where it is best."""
