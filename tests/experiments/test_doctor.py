# SPDX-License-Identifier: Apache-2.0
import pytest

from unlazy.experiments import doctor, environment


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
