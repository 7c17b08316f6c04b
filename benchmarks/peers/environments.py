# SPDX-License-Identifier: Apache-2.0
"""One virtual environment for each peer, made when missing."""

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"


@dataclass(frozen=True)
class Environment:
    """Each entry of `installs` is one call of pip: its arguments."""

    folder: str
    installs: tuple[tuple[str, ...], ...]

    @property
    def python(self) -> Path:
        return FOLDER / self.folder / "bin" / "python"


ENVIRONMENTS = {
    "neural_tangents": Environment(
        "neural-tangents",
        (
            # Without what it declares, tensorflow and tf2jax: nothing measured here needs them.
            ("--no-deps", "neural-tangents==0.6.5"),
            ("jax==0.4.23", "jaxlib==0.4.23", "numpy<2", "scipy<1.13", "frozendict>=2.3.8"),
        ),
    ),
    "torch": Environment("torch", (("torch==2.13.0", "numpy"),)),
}


def interpreter(library: str) -> Path:
    """The Python that runs this library; ours is the one that runs now."""
    if library not in ENVIRONMENTS:
        return Path(sys.executable)
    environment = ENVIRONMENTS[library]
    stamp = FOLDER / environment.folder / ".installed"
    wanted = "\n".join(" ".join(arguments) for arguments in environment.installs)
    if not stamp.exists() or stamp.read_text() != wanted:
        _build(environment)
        stamp.write_text(wanted)
    return environment.python


def _build(environment: Environment) -> None:
    print(f"making .peers/{environment.folder} (minutes, once)", flush=True)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    venv.create(FOLDER / environment.folder, clear=True, with_pip=True)
    for arguments in environment.installs:
        command = [environment.python, "-m", "pip", "install", "--quiet", *arguments]
        # Warnings about mirrors and about the packages left out would drown the table.
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"pip could not install {' '.join(arguments)} into .peers/{environment.folder} "
                f"with Python {sys.version.split()[0]}; 3.11 and 3.12 are known to work. It said:\n"
                f"{done.stderr.strip()}"
            )
