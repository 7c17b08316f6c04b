# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: it draws, toggles, and says nothing on the console."""

import shutil
import time

import pytest

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
