# SPDX-License-Identifier: Apache-2.0
import io

import pytest
from rich.console import Console

from unlazy.experiments import doctor, environment, rendering


def test_the_product_error_tells_float32_from_float64():
    assert 1e-8 < environment.product_error("float32") < 1e-5
    assert 0 < environment.product_error("float64") < 1e-14


def test_a_device_without_float64_is_found(tmp_path, monkeypatch):
    single = environment.product_error("float32")
    monkeypatch.setattr(environment, "product_error", lambda dtype: single)  # noqa: ARG005
    assert not doctor.examine(tmp_path)["ok"]


def test_the_doctor_makes_no_folder(tmp_path):
    findings = doctor.examine(tmp_path / "a" / "b")
    assert findings["ok"]
    assert findings["out"]["problem"] is None
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_tells_why_a_folder_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in doctor.examine(tmp_path / "file" / "runs")["out"]["problem"]


@pytest.mark.parametrize("package", ["python", "unlazy", "jax", "numpy", "pyarrow"])
def test_versions_are_found(package):
    assert environment.versions()[package][0].isdigit()


def shown(findings):
    text = io.StringIO()
    rendering.show_findings(Console(file=text), findings)
    return text.getvalue().splitlines()


def test_the_line_of_a_fault_is_marked_and_no_other(tmp_path, monkeypatch):
    assert not any("FAULT" in line for line in shown(doctor.examine(tmp_path)))
    (tmp_path / "file").write_text("")
    (line,) = [line for line in shown(doctor.examine(tmp_path / "file" / "a")) if "FAULT" in line]
    assert line.startswith("output         FAULT: ")
    monkeypatch.setattr(environment, "product_error", {"float32": 1e-7, "float64": 1e-7}.get)
    (line,) = [line for line in shown(doctor.examine(tmp_path)) if "FAULT" in line]
    assert line.startswith("float64        FAULT: ")


def test_optional_packages_are_listed_and_may_be_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "OPTIONAL", ("torch", "flax", "dask", "no-such-package"))
    findings = doctor.examine(tmp_path)
    assert findings["ok"]
    assert findings["optional"]["no-such-package"] is None
    lines = shown(findings)
    assert "no-such-package not installed; optional" in lines
    assert any(line.startswith("flax ") for line in lines)
    assert set(environment.versions()).isdisjoint(environment.OPTIONAL)  # cells record the others
