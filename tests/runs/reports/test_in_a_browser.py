"""The report in headless Chromium: it opens from disk, asks nothing of anyone, and fits a phone and a desk."""

from __future__ import annotations

import os
import shutil

import pytest

import diagnostics

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None and os.environ.get("TOUCHSTONE_BROWSER") != "required":
    pytest.skip("needs Chromium, a system package (apt-get install chromium)", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=60_000)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def page_of_several(regression, tmp_path_factory):
    posteriors, test = regression
    path = tmp_path_factory.mktemp("report") / "several.html"
    return diagnostics.report(posteriors, test, path=path, title="Three posteriors of one network")


@pytest.fixture(scope="module")
def page_of_one(classification, tmp_path_factory):
    posteriors, test = classification
    return diagnostics.report(posteriors["a"], test, path=tmp_path_factory.mktemp("report") / "one.html")


def _open(browser, path, width, scheme="light"):
    """The page, with what it asked for and what it complained about."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    return page, asked, complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("which", ["page_of_several", "page_of_one"])
def test_the_report_opens_from_disk_and_fits(browser, which, width, scheme, request):
    path = request.getfixturevalue(which)
    page, asked, complaints = _open(browser, path, width, scheme)
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert complaints == []
    verdict = page.locator(".verdict").first
    assert verdict.is_visible()
    box = verdict.bounding_box()
    assert box["y"] + box["height"] < 900  # without scrolling
    assert box["x"] + box["width"] <= width
    across = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert across[0] <= across[1]
    broken = page.evaluate("[...document.images].filter(i => !i.complete || i.naturalWidth === 0).length")
    assert broken == 0
    # Nothing sticks out except within boxes that scroll.
    out = page.evaluate(
        """[...document.querySelectorAll('body *')].filter(e => !e.closest('.wide')
            && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"""
    )
    assert out == 0
    page.context.close()


def test_text_can_be_read_in_light_and_dark(browser, page_of_several):
    """The contrast of text and of verdicts against what is behind them, by the formula of WCAG 2, is at least 4.5."""
    script = """selector => {
        const rgb = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
        const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
        const share = [.2126, .7152, .0722];
        const light = text => rgb(text).reduce((sum, v, i) => sum + share[i] * linear(v / 255), 0);
        const element = document.querySelector(selector);
        let behind = element;
        while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        const pair = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)].sort();
        return (pair[1] + .05) / (pair[0] + .05);
    }"""
    for scheme in ("light", "dark"):
        page, _, _ = _open(browser, page_of_several, 1000, scheme)
        for selector in ("p", "figcaption", ".verdict .word", "td", ".note"):
            assert page.evaluate(script, selector) >= 4.5, (scheme, selector)
        page.context.close()


def test_the_report_prints(browser, page_of_several, tmp_path):
    page, _, _ = _open(browser, page_of_several, 1000)
    page.pdf(path=str(tmp_path / "report.pdf"))
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    page.context.close()


def test_a_hostile_name_does_nothing(browser, classification, tmp_path):
    posteriors, test = classification
    hostile = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
    path = diagnostics.report({hostile: posteriors["a"]}, test, path=tmp_path / "r.html", title=hostile)
    page, asked, complaints = _open(browser, path, 1000)
    assert page.title() == hostile
    assert complaints == []
    assert len([url for url in asked if not url.startswith("data:")]) == 1
    page.context.close()
