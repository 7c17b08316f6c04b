# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: it draws, toggles, and says nothing on the console."""

import dataclasses
import shutil
import time

import numpy as np
import pytest
from matplotlib.figure import Figure

from unlazy.experiments import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
Service = pytest.importorskip("selenium.webdriver.chrome.service").Service

PAGE = "toy--figure1--smoke.html"
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, "--window-size=1280,1200"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(service=Service(driver), options=options)
    yield running
    running.quit()


@pytest.fixture
def page(browser, site):
    """The page of a figure, drawn."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    open_page(browser, site, PAGE)
    yield browser
    assert not browser.get_log("browser")


def open_page(browser, site, name):
    browser.get((site.page.parent / name).as_uri())
    wait(lambda: browser.find_elements("css selector", ".chart[data-drawn]"))


def wait(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def curves(page):
    return page.find_elements("css selector", ".chart .mark-line path")


def ticks(page):
    labels = page.find_elements("css selector", ".chart .role-axis-label text")
    return [label.get_attribute("textContent") for label in labels]


def draws(page):
    return int(page.find_element("css selector", ".chart").get_attribute("data-drawn"))


def act(page, deed):
    """Do something that draws the panel anew."""
    before = draws(page)
    deed()
    wait(lambda: draws(page) > before)


def test_all_curves_are_drawn_with_their_names(page):
    assert len(curves(page)) == 3
    labels = page.find_elements("css selector", "#legend label")
    assert [label.text for label in labels] == ["cell 0", "cell 1", "cell 2"]


def test_a_box_hides_a_curve_and_shows_it_again(page):
    box = page.find_elements("css selector", "#legend input")[1]
    act(page, box.click)
    assert len(curves(page)) == 2
    act(page, lambda: box.send_keys(" "))  # by the keyboard
    assert len(curves(page)) == 3


def test_a_button_changes_an_axis_to_logarithmic(page):
    linear = ticks(page)
    button = page.find_elements("css selector", ".buttons button")[0]
    assert button.get_attribute("aria-pressed") == "false"
    act(page, lambda: button.send_keys("\n"))  # by the keyboard
    assert button.get_attribute("aria-pressed") == "true"
    assert ticks(page) != linear
    assert len(curves(page)) == 3


def test_hovering_shows_the_numbers(page):
    chart = page.find_element("css selector", ".chart svg")
    webdriver.ActionChains(page).move_to_element(chart).perform()
    wait(lambda: page.find_elements("css selector", "#vg-tooltip-element.visible"))
    shown = page.find_element("id", "vg-tooltip-element").text
    assert "cell" in shown
    assert "step" in shown


def test_scrolling_zooms_and_the_button_undoes_it(page):
    before = ticks(page)
    chart = page.find_element("css selector", ".chart svg")
    origin = webdriver.common.actions.wheel_input.ScrollOrigin.from_element(chart)
    webdriver.ActionChains(page).scroll_from_origin(origin, 0, -400).perform()
    wait(lambda: ticks(page) != before)
    act(page, page.find_elements("css selector", ".buttons button")[-1].click)
    assert ticks(page) == before


def test_a_dark_page_draws_anew_in_its_own_colours(page):
    def color():
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    light = color()
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    act(page, lambda: page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark}))
    assert color() != light


@pytest.mark.parametrize("name", ["index.html", PAGE])
def test_nothing_is_wider_than_a_phone(browser, site, name):
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.get((site.page.parent / name).as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_control_has_a_name_for_screen_readers(page):
    for control in page.find_elements("css selector", "button, input, .chart, a, img"):
        assert control.accessible_name or not control.is_displayed(), control.get_attribute(
            "outerHTML"
        )


def special(config, results):
    """Two curves with bands, one with two gaps, on a symmetric logarithm; one with steps."""
    x = np.arange(9.0)
    fig = Figure()
    ax = fig.subplots()
    for name, color, sign in (("broken", "red", 1), ("whole", "blue", -1)):
        y = sign * 10.0 ** (x - 4)
        ax.fill_between(x, y - 0.1, y + 0.1, color=color, alpha=0.2)
        ax.plot(x, np.where(np.isin(x, (3, 6)), np.nan, y) if sign > 0 else y, c=color, label=name)
    ax.set_yscale("symlog", linthresh=0.01)
    ax.plot(["a", "b"], [0, 1], drawstyle="steps-post", c="green", label="steps")
    return fig


@pytest.fixture
def special_page(browser, runs, toy, tmp_path):
    site = write_report(
        runs, tmp_path, find=lambda _: dataclasses.replace(toy.EXPERIMENT, plot=special)
    )
    open_page(browser, site, PAGE)
    yield browser
    assert not browser.get_log("browser")


def test_gaps_break_a_curve_and_steps_are_drawn(special_page):
    paths = [path.get_attribute("d") for path in curves(special_page)]
    assert len(paths) == 3 + 1 + 1  # the parts of the broken curve, and the others
    assert sorted(path.count("L") + path.count("H") for path in paths) == [1, 1, 2, 2, 8]


def test_a_box_hides_the_band_of_its_curve_too(special_page):
    def bands():
        return special_page.find_elements("css selector", ".chart .mark-area path")

    assert len(bands()) == 2
    names = [label.text for label in special_page.find_elements("css selector", "#legend label")]
    box = special_page.find_elements("css selector", "#legend input")[names.index("whole")]
    act(special_page, box.click)
    assert len(bands()) == 1
    act(special_page, box.click)
    assert len(bands()) == 2


def test_a_symmetric_logarithm_is_one_and_can_be_made_linear(special_page):
    # Words stand at the places, so that one button is left, for the heights.
    button, _ = special_page.find_elements("css selector", ".buttons button")
    assert (button.text, button.get_attribute("aria-pressed")) == ("symlog y", "true")
    assert {"0", "0.01", "\u22120.01"} <= set(ticks(special_page))
    act(special_page, button.click)
    assert button.get_attribute("aria-pressed") == "false"
    assert "0.01" not in ticks(special_page)
