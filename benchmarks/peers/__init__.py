# SPDX-License-Identifier: Apache-2.0
"""Speed and memory against other libraries, on the same inputs and cores: `make bench-peers`.

Every implementation runs as a process of its own, with the interpreter of its own environment:
neural-tangents needs a JAX that ours cannot share. This file imports nothing, since those
environments have no more than numpy in common.
"""
