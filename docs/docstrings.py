# SPDX-License-Identifier: Apache-2.0
"""How docstrings become the reference: read by griffe when the site is built, see `mkdocs.yml`."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Reads a section `Example:` as the code that it is, where griffe knows `Examples:` alone."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section of every docstring."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = re.sub(
                r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE
            )
