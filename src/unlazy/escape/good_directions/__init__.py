# SPDX-License-Identifier: Apache-2.0
"""Good directions: the leading ones of the tangent features, and penalties on all others."""
