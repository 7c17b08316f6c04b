# SPDX-License-Identifier: Apache-2.0
import dataclasses
import gc
import html
import html.parser
import json
import os
import shutil
import sys
import urllib.parse
import weakref

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from matplotlib.figure import Figure

from unlazy.core.errors import StoreError, UnlazyError
from unlazy.experiments import Claim, Store, run_experiment, write_report

PAGE = "toy--figure1--smoke.html"


class Addresses(html.parser.HTMLParser):
    """The addresses that a page refers to."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):  # noqa: ARG002  # as the parser calls it
        self.found += [value for name, value in attrs if name in ("href", "src")]


def pages(site):
    return sorted(site.page.parent.glob("*.html"))


def drawn(page):
    text = page.read_text()
    start = text.index('id="panels">') + len('id="panels">')
    return json.loads(text[start : text.index("</script>", start)])


def cells_of(site, runs):
    return site.runs[0].read(Store(runs)).cells


def test_the_results_of_one_run_are_in_memory_at_a_time(runs, find, tmp_path, monkeypatch):
    by_digest, read = Store.by_digest, []

    def counted(self, experiment, digest):
        gc.collect()
        alive = [one for one in read if one() is not None]
        assert len(alive) < 3, "cells of the run before"
        cell = by_digest(self, experiment, digest)
        read.append(weakref.ref(cell))
        return cell

    monkeypatch.setattr(Store, "by_digest", counted)
    assert len(write_report(runs, tmp_path, find=find).runs) == 2
    assert len(read) == 6


def test_each_run_has_a_page_and_the_overview_leads_to_it(site):
    assert {page.name for page in pages(site)} == {
        *("index.html", PAGE, "toy--figure1--strict.html"),
    }
    assert PAGE in Addresses(site.page.read_text()).found


def check_addresses(site):
    """Every address leads, as a browser reads it, to a file of the site."""
    for page in pages(site):
        for address in Addresses(page.read_text()).found:
            if not address.startswith("#"):
                place = urllib.parse.urlsplit(address)
                assert not place.query
                assert not place.fragment
                file = urllib.parse.unquote(place.path, errors="surrogateescape")
                assert (page.parent / file).is_file(), address


def test_every_address_is_a_file_of_the_site(site):
    check_addresses(site)


def test_no_page_style_or_script_of_ours_asks_another_host(site):
    ours = [*pages(site), *(site.page.parent / "assets").glob("report.*")]
    for file in ours:
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert "http" not in text, file.name
        assert "url(" not in text, file.name


def test_a_page_shows_claims_configuration_and_versions(site):
    text = (site.page.parent / PAGE).read_text()
    for shown in ("TOY-1", "The mean stays small.", "&lt; 0.1", "holds", "ToyConfig", "threshold"):
        assert shown in text
    for shown in ("jax 0.", "3, ", "unlazy run toy/figure1 --preset smoke"):
        assert shown in text


def test_a_verdict_that_is_not_the_recorded_one_is_said_first(site):
    assert "not as recorded: 1" in site.page.read_text()
    assert "recorded otherwise" in (site.page.parent / "toy--figure1--strict.html").read_text()
    pages = [address for address in Addresses(site.page.read_text()).found if "--" in address]
    assert pages.index("toy--figure1--strict.html") < pages.index(PAGE)  # not by their names
    assert [run.preset for run in site.runs] == ["smoke", "strict"]


def test_the_page_draws_the_stored_numbers(site, runs):
    [panel] = drawn(site.page.parent / PAGE)
    assert len(panel["curves"]) == 3
    for curve, cell in zip(panel["curves"], cells_of(site, runs), strict=True):
        table = cell.result.table
        np.testing.assert_allclose(
            curve["points"], np.stack([table["step"], table["mean"]], 1), 1e-5
        )


def test_tables_can_be_downloaded_in_both_formats(site, runs):
    folder = site.page.parent / "files" / PAGE.removesuffix(".html")
    table = pyarrow.parquet.read_table(folder / "toycell.parquet")
    text = pyarrow.csv.read_csv(folder / "toycell.csv")
    wanted = np.concatenate([cell.result.table["mean"] for cell in cells_of(site, runs)])
    for one in (table, text):
        assert one.num_rows == 30
        np.testing.assert_array_equal(one["mean"].to_numpy(), wanted)
        np.testing.assert_array_equal(one["cell_seed"].to_numpy(), np.repeat([0, 1, 2], 10))
    assert json.loads(table["cell_config"][29].as_py())["index"] == 2
    np.testing.assert_array_equal(text["cell_index"].to_numpy(), np.repeat([0, 1, 2], 10))
    assert text.column_names == ["cell_seed", "cell_index", "step", "mean", "sign"]  # n is the same


def test_the_size_is_that_of_the_files(site):
    assert site.bytes == sum(
        file.stat().st_size for file in site.page.parent.rglob("*") if file.is_file()
    )
    assert site.to_dict()["interactive"]


EVIL = "'\"><script>alert(1)</script>"


def test_what_claims_say_cannot_become_markup(toy, tmp_path):
    def claims(config, results):
        return [Claim(EVIL, EVIL, 1.0, "<", 2.0, note=EVIL)]

    def plot(config, results):
        fig = toy.plot(config, results)
        fig.axes[0].set_title(EVIL)
        fig.axes[0].set_xlabel(EVIL)
        fig.axes[0].lines[0].set_label(EVIL)
        return fig

    preset = dataclasses.replace(toy.EXPERIMENT.presets["smoke"], about=EVIL)
    experiment = dataclasses.replace(
        toy.EXPERIMENT, claims=claims, plot=plot, title=EVIL, presets={"smoke": preset}
    )
    run_experiment(experiment, "smoke", out=tmp_path)
    site = write_report(tmp_path, find=lambda _: experiment)
    assert all("<script>alert" not in page.read_text() for page in pages(site))
    assert drawn(site.page.parent / PAGE)[0]["title"] == EVIL


def test_what_stored_files_say_cannot_become_markup(toy, tmp_path):
    preset = EVIL.replace("/", "")  # which a folder may be called
    experiment = dataclasses.replace(
        toy.EXPERIMENT, presets={preset: toy.EXPERIMENT.presets["smoke"]}
    )
    run_experiment(experiment, preset, out=tmp_path)
    path = tmp_path / toy.NAME / preset / "claims.json"
    record = json.loads(path.read_text())
    claim = record["claims"][0] | {"id": EVIL, "verdict": EVIL, "as_expected": EVIL, "note": EVIL}
    path.write_text(json.dumps(record | {"claims": [claim]}))
    for meta in tmp_path.glob("cells/**/meta.json"):
        meta.write_text(json.dumps({"device": EVIL, "finished": EVIL, "versions": {EVIL: EVIL}}))
    copied_to = tmp_path / preset / "claims.json"  # what is left out is named
    copied_to.parent.mkdir()
    shutil.copyfile(path, copied_to)
    site = write_report(tmp_path)
    assert len(pages(site)) == 2
    for page in pages(site):
        assert "<script>" not in page.read_text()
        assert "'" not in "".join(Addresses(page.read_text()).found)
    check_addresses(site)


@pytest.mark.parametrize("preset", ["n=10%25#2", "a b?c", "ä&amp;", "100%", "\udcff"])
def test_a_preset_may_be_called_as_a_folder_may(toy, tmp_path, preset):
    experiment = dataclasses.replace(
        toy.EXPERIMENT, presets={preset: toy.EXPERIMENT.presets["smoke"]}
    )
    run_experiment(experiment, preset, out=tmp_path)
    site = write_report(tmp_path, find=lambda _: experiment)
    assert [run.preset for run in site.runs] == [preset]
    check_addresses(site)


def test_texts_that_no_encoding_has_are_shown_all_the_same(runs, tmp_path):
    claim = Claim("TOY-\ud800", "Half a character: \udfff.", 1.0, "<", 2.0).to_dict()
    site = write_report(copied(runs, tmp_path / "runs", claims=[claim]))
    assert r"TOY-\ud800" in (site.page.parent / PAGE).read_text()


def test_a_figure_of_unknown_code_is_shown_as_it_was_drawn(runs, tmp_path):
    site = write_report(runs, tmp_path)
    text = (tmp_path / PAGE).read_text()
    assert "figure.png" in text
    assert "vega" not in text
    assert "TOY-1" in text
    assert site.runs[0].code is None


def test_without_the_script_figures_are_shown_as_drawn(runs, find, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    site = write_report(runs, tmp_path, find=find)
    assert not site.interactive
    assert "unlazy[report]" in str(site)
    assert "figure.png" in (tmp_path / PAGE).read_text()


def test_another_version_of_the_figure_is_told(runs, toy, tmp_path):
    newer = dataclasses.replace(toy.EXPERIMENT, version=4)
    write_report(runs, tmp_path, find=lambda _: newer)
    assert "Stored by version 3 of the figure, now 4." in (tmp_path / PAGE).read_text()


def test_a_damaged_cell_is_told_and_the_rest_shown(runs, find, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(runs, out)
    table = sorted(out.glob("cells/**/table.parquet"))[0]
    table.write_bytes(b"?" * table.stat().st_size)
    site = write_report(out, find=find)
    assert "1 of 3 cells are lost or damaged" in (site.page.parent / PAGE).read_text()


UNKNOWN_METAS = {
    "{": "3, 0 s in all, time unknown of 1",
    "[]": "time unknown of 1",
    "null": "time unknown of 1",
    '{"seconds": "abc"}': "time unknown of 1",
    '{"seconds": NaN}': "time unknown of 1",
    '{"versions": "x", "seconds": 1e300}': "time unknown of 1",
    '{"device": [1], "finished": {}, "versions": {"x": [1]}, "seconds": 9}': "9 s in all",
}


@pytest.mark.parametrize("text", UNKNOWN_METAS)
def test_what_is_not_known_about_a_cell_is_said_and_the_figure_shown(runs, find, tmp_path, text):
    shutil.copytree(runs, tmp_path / "runs")
    sorted((tmp_path / "runs").glob("cells/**/meta.json"))[0].write_text(text)
    for path in sorted((tmp_path / "runs").glob("cells/**/meta.json"))[1:]:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 0.0}))
    site = write_report(tmp_path / "runs", find=find)
    page = site.page.parent / PAGE
    assert UNKNOWN_METAS[text] in page.read_text()
    assert "unknown" in page.read_text()
    assert "damaged" not in page.read_text()
    assert drawn(page)


def test_other_data_than_was_found_leaves_the_drawn_figure(runs, toy, tmp_path):
    def cells(config):
        return toy.cells(dataclasses.replace(config, n=7))

    other = dataclasses.replace(toy.EXPERIMENT, cells=cells)
    write_report(runs, tmp_path, find=lambda _: other)
    text = (tmp_path / PAGE).read_text()
    assert 'id="panels"' not in text
    assert "found other data sets" in text
    assert "found other data sets" in text


def copied(runs, folder, **changes):
    """A copy of the runs with changes in the claims of the first."""
    shutil.copytree(runs, folder)
    path = folder / "toy/figure1/smoke/claims.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@pytest.mark.parametrize("name", ["experiment", "preset"])
def test_a_record_cannot_make_the_report_write_elsewhere(runs, tmp_path, name):
    out = copied(runs, tmp_path / "a/b/runs", **{name: "../../../escaped"})
    site = write_report(out)
    assert [run.preset for run in site.runs] == ["strict"]
    assert not list(tmp_path.glob("**/*escaped*"))
    said = "'toy/figure1/smoke' holds a copy of another run, which is not shown."
    assert site.left_out == (said,)
    assert said in str(site)
    assert html.escape(said) in site.page.read_text()


def test_the_copy_of_a_run_does_not_take_the_page_of_the_run(runs, tmp_path):
    copied(runs, tmp_path / "runs")
    copied(runs, tmp_path / "runs/old", claims=[])
    site = write_report(tmp_path / "runs")
    assert [run.preset for run in site.runs] == ["smoke", "strict"]
    assert "TOY-1" in (site.page.parent / PAGE).read_text()
    assert len(site.left_out) == 2


def with_plot(toy, change):
    """The toy, with its figure changed."""

    def plot(config, results):
        fig = toy.plot(config, results)
        change(fig.axes[0])
        return fig

    return dataclasses.replace(toy.EXPERIMENT, plot=plot)


def test_a_figure_that_cannot_be_taken_apart_leaves_the_rest_of_the_report(runs, toy, tmp_path):
    def fails(ax):
        raise RuntimeError("no such\nstyle <b>")

    site = write_report(runs, tmp_path, find=lambda _: with_plot(toy, fails))
    text = (site.page.parent / PAGE).read_text()
    assert 'id="panels"' not in text
    assert "could not be taken from it (RuntimeError: no such style &lt;b&gt;)" in text
    assert 'class="drawn"' in text


def test_a_panel_that_is_only_drawn_is_named_and_the_drawn_figure_open(runs, toy, tmp_path):
    def scatters(ax):
        ax.scatter([1, 2], [3, 4])

    site = write_report(runs, tmp_path, find=lambda _: with_plot(toy, scatters))
    text = (site.page.parent / PAGE).read_text()
    assert 'id="panels"' not in text
    assert "Only in the figure as drawn: 3 cells (PathCollection)." in text

    def adds(ax):
        ax.get_figure().add_axes((0, 0, 0.2, 0.2)).bar([1], [2])

    site = write_report(runs, tmp_path, find=lambda _: with_plot(toy, adds))
    text = (site.page.parent / PAGE).read_text()
    assert len(drawn(site.page.parent / PAGE)) == 1
    assert "Only in the figure as drawn: panel 2 (Rectangle)." in text
    assert "<details open><summary>The figure as drawn" in text


def test_words_on_an_axis_do_not_stop_the_report(runs, toy, tmp_path):
    def named(config, results):
        fig = Figure()
        fig.subplots().plot(["relu", "tanh"], [1, 2])
        return fig

    site = write_report(
        runs, tmp_path, find=lambda _: dataclasses.replace(toy.EXPERIMENT, plot=named)
    )
    [panel] = drawn(site.page.parent / PAGE)
    assert panel["x"]["ticks"] == [[0, "relu"], [1, "tanh"]]


def test_a_second_report_is_the_same(site, runs, find, tmp_path):
    again = write_report(runs, tmp_path, find=find)
    for page in pages(again):
        assert page.read_bytes() == (site.page.parent / page.name).read_bytes()


def test_a_folder_without_runs_says_what_to_do(tmp_path):
    with pytest.raises(UnlazyError, match=r"no finished run in .*unlazy run --all"):
        write_report(tmp_path)


BROKEN = ["{", "[]", '{"experiment": 3}', "null", "[" * 200_000, '{"a": NaN}', "", "7"]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_record_is_named(runs, tmp_path, text):
    out = tmp_path / "runs"
    shutil.copytree(runs, out)
    (out / "toy/figure1/smoke/claims.json").write_text(text)
    with pytest.raises(StoreError, match=r"claims\.json.*Run the figure again"):
        write_report(out)


def test_a_record_that_is_no_file_is_named(runs, tmp_path):
    out = copied(runs, tmp_path / "runs")
    (out / "toy/figure1/smoke/claims.json").unlink()
    os.mkfifo(out / "toy/figure1/smoke/claims.json")  # which would wait for ever
    with pytest.raises(StoreError, match=r"claims\.json is a fifo"):
        write_report(out)


@pytest.mark.parametrize(
    "changes",
    [
        {"claims": [1]},
        {"claims": [{}]},
        {"claims": [None]},
        {"claims": [Claim("a", "b", 1, "<", 2).to_dict() | {"measured": 10**400}]},
        {"claims": [Claim("a", "b", 1, "<", 2).to_dict() | {"measured": "abc"}]},
        {"claims": [Claim("a", "b", 1, "<", 2).to_dict() | {"threshold": [1, 2, 3]}]},
        {"claims": [Claim("a", "b", 1, "<", 2).to_dict() | {"relation": "<script>"}]},
        {"claims": [Claim("a", "b", 1, "<", 2).to_dict() | {"id": ["a"]}]},
        {"cells": [1]},
        {"cells": ["../../../../etc"]},
    ],
)
def test_a_record_of_other_kinds_is_named(runs, tmp_path, changes):
    out = copied(runs, tmp_path / "runs", **changes)
    with pytest.raises(StoreError, match=r"claims\.json.*Run the figure again") as caught:
        write_report(out)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["id", "sentence", "note"])
def test_a_claim_without_text_is_named_by_us(runs, tmp_path, name):
    # Not by the types alone, which only tests check.
    claim = Claim("a", "b", 1, "<", 2).to_dict() | {name: ["a"]}
    with pytest.raises(StoreError, match=rf"`{name}` of a claim must be text, got \['a'\]"):
        write_report(copied(runs, tmp_path / "runs", claims=[claim]))
