"""The README and docs/: commands exist, links lead somewhere, the front page is one screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text()


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for command in re.findall(r"`make (\w+)`", page.read_text()) + re.findall(r"^make (\w+)", README, re.MULTILINE):
            assert re.search(rf"^{command}:", makefile, re.MULTILINE), f"{page.name}: make {command}"


def test_modules_that_are_named_exist():
    for page in PAGES:
        for module in re.findall(r"python -m ([\w.]+)", page.read_text()):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{page.name}: python -m {module}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_files_that_are_named_exist():
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # speaks of what was
            continue
        for path in re.findall(r"`((?:inference|models|data|diagnostics|tests|docs)/[\w/]+\.\w+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_every_page_of_docs_is_linked_from_the_front():
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(re.findall(r"\]\(([^)]+)\)", README))


def test_the_front_page_is_short():
    assert len(README.splitlines()) <= 80
    assert len(README.split()) <= 900
