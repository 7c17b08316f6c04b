# SPDX-License-Identifier: Apache-2.0
"""The report: a static site over all stored runs, with interactive figures and no network."""
