"""Every Python block of the README and of docs/ runs, after those before it on its page.

Here with few iterations, because nothing is asserted of the numbers; `make validate` runs the blocks as they are.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.helpers.shortened import shortened

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]}
BLOCKS = {page: re.findall(r"```python\n(.*?)```", text, re.DOTALL) for page, text in PAGES.items()}


class _Reader:
    """Who has run the first blocks of a page, in a folder, and has what they defined."""

    def __init__(self, page: str, folder: Path) -> None:
        folder.mkdir()
        self.page, self.folder, self.done, self.names = page, folder, 0, dict[str, object]()

    def read(self, block: int) -> None:
        """Run the blocks up to this one that were not run yet."""
        while self.done <= block:
            exec(compile(BLOCKS[self.page][self.done], f"{self.page}, block {self.done}", "exec"), self.names)
            self.done += 1


@pytest.fixture(scope="module", params=["short", pytest.param("whole", marks=pytest.mark.validation)])
def readers(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    with shortened() if request.param == "short" else nullcontext():
        yield {page: _Reader(page, folder / page.replace("/", "-")) for page in PAGES}


@pytest.mark.parametrize(
    ("page", "block"),
    [(page, block) for page in PAGES for block in range(len(BLOCKS[page]))],
)
@pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")  # a short run may have much to say
def test_a_block_runs(page, block, readers, monkeypatch, capsys):
    reader = readers[page]
    monkeypatch.chdir(reader.folder)
    reader.read(block)
    if page == "README.md":
        printed = capsys.readouterr().out
        assert "log_score" in printed
        assert "distance to hmc" in printed
        assert (reader.folder / "report.html").stat().st_size > 10_000
    if "replicated" in reader.names:
        assert reader.names["replicated"].shape[::2] == (4, 8)
