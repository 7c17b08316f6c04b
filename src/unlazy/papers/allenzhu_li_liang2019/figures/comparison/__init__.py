# SPDX-License-Identifier: Apache-2.0
"""What Figures 1 and 2 share: six methods on one target, against the width and the samples."""
