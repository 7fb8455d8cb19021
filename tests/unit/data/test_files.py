"""Files that are written in one step."""

from __future__ import annotations

import os

import pytest

from data.files import replacing


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is a device or a pipe"), replacing(pipe):
        raise AssertionError("nothing is written")
    assert pipe.is_fifo()
