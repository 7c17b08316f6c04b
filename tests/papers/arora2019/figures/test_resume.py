# SPDX-License-Identifier: Apache-2.0
import random
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-c", "from unlazy.cli import main; main()", "run", "arora2019/figure1"]


def command(out):
    return [*COMMAND, "--preset", "smoke", "--out", str(out)]


def contents(out):
    """Every stored file but what hangs on the time it took, and the figures drawn from them."""
    whole = [path for path in sorted(out.rglob("*")) if path.is_file() and path.name != "meta.json"]
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in whole
        # What a killed run left behind is cleared by a later one; compiled programs are no results.
        if ".partial" not in str(path) and path.parent != out / "compiled"
    }


@pytest.mark.slow
def test_killed_ten_times_it_resumes_to_the_same_bytes(tmp_path):
    start = time.monotonic()
    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True, timeout=120)
    seconds = time.monotonic() - start
    moments = random.Random(20191)
    for _ in range(10):
        run = subprocess.Popen(
            command(tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(moments.uniform(0.1, 0.9) * seconds)
        run.send_signal(signal.SIGKILL)
        run.wait()
    subprocess.run(command(tmp_path / "killed"), check=True, capture_output=True, timeout=120)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
