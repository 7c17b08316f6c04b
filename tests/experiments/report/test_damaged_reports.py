# SPDX-License-Identifier: Apache-2.0
"""Reports on damaged or forged runs, and forged tables: shown, or one clear error, within bounds.

A forger knows the format: values of JSON are replaced by others of any kind, columns of tables too,
and the digests of cells are right. Whatever comes out, no file is written outside of the report.
"""

import copy
import hashlib
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unlazy.core.errors import UnlazyError
from unlazy.experiments import Store, write_report
from unlazy.experiments.canonical import compact_json
from unlazy.experiments.joined import taken_apart

EVIL = "'\"><script>x</script>"
ODD = [
    *(None, True, -1, 0.5, 2**70, 10**400, float("nan"), float("inf"), "", "abc", EVIL, "\ud800"),
    *(
        "../../escaped",
        "a" * 300,
        [],
        [1],
        [[]],
        {},
        {"class": EVIL},
        {"class": [1]},
        {"float": {}},
    ),
    *(["a", {"b": [None]}], {"": {"": {}}}, "9" * 50, "\0", "toy/figure1", "1e999"),
]
DEEP = "[" * 150 + "]" * 150


def places(value, path=()):
    """The paths to all values within a value."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from places(part, (*path, key))


def changed(value, rng):
    """The value with one or two of its parts replaced or left out."""
    value = copy.deepcopy(value)
    for _ in range(rng.integers(1, 3)):
        found = list(places(value))[1:]
        if not found:
            return ODD[rng.integers(len(ODD))]
        *path, last = found[rng.integers(len(found))]
        parent = value
        for key in path:
            parent = parent[key]
        kind = rng.integers(0, 12)
        if kind == 0:
            del parent[last]
        else:
            parent[last] = (
                json.loads(DEEP) if kind == 1 else copy.deepcopy(ODD[rng.integers(len(ODD))])
            )
    return value


def cut(text, rng):
    """The text, sometimes with bytes replaced or cut off."""
    data = bytearray(text.encode(errors="surrogatepass"))
    at = int(rng.integers(0, len(data)))
    kind = rng.integers(0, 8)
    if kind == 0:
        del data[at:]
    elif kind == 1:
        data[at : at + 2] = rng.bytes(2)
    return bytes(data)


def forge(out, rng):
    """Change a claims.json, a meta.json or, with its digests, a cell.json of a run."""
    record_path = out / "toy/figure1/smoke/claims.json"
    kind = rng.integers(0, 3)
    if kind == 0:
        record_path.write_bytes(cut(json.dumps(changed(read(record_path), rng)), rng))
    elif kind == 1:
        path = sorted(out.glob("cells/**/meta.json"))[rng.integers(3)]
        path.write_bytes(cut(json.dumps(changed(read(path), rng)), rng))
    else:
        path = sorted(out.glob("cells/**/cell.json"))[rng.integers(3)]
        cell, record = read(path), read(record_path)
        identity = changed(cell["cell"], rng)
        try:
            digest = hashlib.sha256(compact_json(identity).encode()).hexdigest()
        except ValueError:  # nan
            digest = "0" * 64
        record["cells"] = [digest if one == cell["digest"] else one for one in record["cells"]]
        path.write_text(json.dumps(cell | {"cell": identity, "digest": digest}))
        path.parent.rename(path.parent.parent / digest[:20])
        record_path.write_text(json.dumps(record))


def read(path):
    return json.loads(path.read_text())


def complaint(deed, folder, allowed):
    """What is wrong with how a deed ends, or with where it writes; None if all is well."""
    before = {path for path in folder.rglob("*") if allowed not in path.parents}
    try:
        deed()
    except UnlazyError as error:
        if "\n" in str(error):
            return f"several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    strange = {path for path in folder.rglob("*") if allowed not in path.parents} - before
    return f"writes {strange}" if strange - {allowed} else None


def complaints_of_reports(runs, find, tmp_path, count, seed):
    rng, found = np.random.default_rng(seed), []
    for number in range(count):
        folder = tmp_path / f"a/b/{number}"
        shutil.copytree(runs, folder / "runs")
        forge(folder / "runs", rng)
        code = find if rng.integers(0, 2) else {}.get

        def deed(folder=folder, code=code):
            write_report(folder / "runs", folder / "site", find=code)

        said = complaint(deed, tmp_path, folder / "site")
        found += [f"{number}: {said}"] if said else []
        for page in folder.glob("site/*.html"):
            if "<script>x" in page.read_text():
                found.append(f"{number}: markup in {page.name}")
        shutil.rmtree(folder)
    return found


@pytest.fixture
def drawn_only(monkeypatch):
    """Without the script that draws, which takes most of the time of a report."""
    monkeypatch.setattr("unlazy.experiments.report.site._drawing_script", lambda: "x")


@pytest.mark.usefixtures("drawn_only")
def test_a_report_on_forged_runs_is_written_or_refused(runs, find, tmp_path):
    assert not complaints_of_reports(runs, find, tmp_path, 40, seed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_only")
def test_a_report_on_many_forged_runs_is_written_or_refused(runs, find, tmp_path):
    assert not complaints_of_reports(runs, find, tmp_path, 1000, seed=2)


def forged_column(name, column, rng):
    """Another column in the place of this one: other kinds, other texts, nothing."""
    count, kind = len(column), rng.integers(0, 6)
    if kind == 0:
        return pa.array([ODD[rng.integers(len(ODD))]] * count, from_pandas=False)
    if kind == 1:
        return pa.nulls(count)
    if kind == 2:
        return pa.array(rng.normal(size=count).astype(rng.choice(["f4", "f8"])))
    if pa.types.is_string(column.type):
        texts = [json.dumps(changed(json.loads(column[0].as_py()), rng))] if kind < 5 else [""]
        return pa.array([cut(text, rng).decode(errors="replace") for text in texts] * count)
    return pa.array(rng.integers(-3, 2**62, count))


def forge_table(path, rng):
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    if rng.integers(0, 4) == 0:
        note = changed(json.loads(metadata[b"unlazy"]), rng)
        metadata[b"unlazy"] = cut(json.dumps(note), rng)
    else:
        at = int(rng.integers(table.num_columns))
        name = table.column_names[at]
        try:
            column = forged_column(name, table.column(at), rng)
        except (ValueError, pa.ArrowException, OverflowError):  # what no table can hold
            column = pa.nulls(table.num_rows)
        name = name if rng.integers(0, 5) else "other"
        table = table.set_column(at, name, column)
    try:
        pq.write_table(table.replace_schema_metadata(metadata), path)
    except pa.ArrowException:  # what Parquet does not have
        path.write_bytes(b"PAR1")


def complaints_of_tables(toy, tables, tmp_path, count, seed):
    rng, found = np.random.default_rng(seed), []
    for number in range(count):
        folder = tmp_path / f"{number}"
        shutil.copytree(tables, folder / "tables")
        paths = sorted((folder / "tables").rglob("*.parquet"))
        path = paths[rng.integers(len(paths))]
        if rng.integers(0, 4):
            forge_table(path, rng)
        else:
            data = bytearray(path.read_bytes())
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(data)

        def deed(folder=folder):
            # Not a whole run: what a figure says of numbers that fit its cells is its own matter.
            store = Store(folder / "out")
            store.prepare()
            taken = taken_apart(folder / "tables", toy.NAME, toy.VERSION)
            for cell in toy.cells(toy.EXPERIMENT.presets["smoke"].config):
                if cell.digest in taken:
                    store.write(cell, taken[cell.digest].result, taken[cell.digest].meta)
                    assert (
                        store.by_digest(cell.experiment, cell.digest).identity["seed"] == cell.seed
                    )

        said = complaint(deed, folder, folder / "out")
        found += [f"{number}, {path.name}: {said}"] if said else []
        shutil.rmtree(folder)
    return found


@pytest.fixture
def tables(runs, tmp_path):
    return write_report(runs, tmp_path / "site").page.parent / "files"


def test_forged_tables_are_taken_or_refused(toy, tables, tmp_path):
    assert not complaints_of_tables(toy, tables, tmp_path, 40, seed=3)


@pytest.mark.slow
def test_many_forged_tables_are_taken_or_refused(toy, tables, tmp_path):
    assert not complaints_of_tables(toy, tables, tmp_path, 1000, seed=4)
