# SPDX-License-Identifier: Apache-2.0
"""What is raised where a network has no Taylor term, or none that can be computed."""

from unlazy.core.errors import UnlazyError


class NoTaylorTermError(UnlazyError, ValueError):
    """The network has no derivative of that order there, such as a ReLU at exactly 0."""


class UnsupportedOperationError(UnlazyError, NotImplementedError):
    """An operation of the network that cannot be differentiated."""
