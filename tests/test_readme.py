"""Every Python block of the README runs, one after the other, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "log_score" in printed
    assert "distance to hmc" in printed
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert names["replicated"].shape == (4, 500, 8)  # type: ignore[attr-defined]


def test_shell_commands_exist():
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    assert {"demo", "test"} <= set(commands)
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)
