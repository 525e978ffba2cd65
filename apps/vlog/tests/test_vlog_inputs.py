"""Real and broken inputs, and the table of them in the README."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from vlog_inputs import INPUTS
from vlog_kit import probe_picture

from posthouse import testing

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- inputs -->\n", "<!-- /inputs -->"


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    for name, _, make in INPUTS:
        make(folder / name)
    return folder


async def test_each_input_is_published_whole_or_fails_with_its_reason(
    vlog_client, inputs, library, monkeypatch
):
    monkeypatch.setenv("VLOG_QUALITIES", "source")
    videos = [await vlog_client.upload(inputs / name, Path(name).stem) for name, _, _ in INPUTS]
    await testing.drain(vlog_client.running_app.app)
    found = [await vlog_client.video(video) for video in videos]
    rows = [row(name, what, video) for (name, what, _), video in zip(INPUTS, found, strict=True)]
    table = "\n".join(["| file | content | result |", "|---|---|---|", *rows, ""])
    text = README.read_text()
    before, _, rest = text.partition(START)
    shown, _, after = rest.partition(END)
    if os.environ.get("VLOG_WRITE_README"):
        README.write_text(f"{before}{START}\n{table}\n{END}{after}")
    else:
        assert shown.strip() == table.strip(), "run this test with VLOG_WRITE_README=1"
    for video in found:
        check(video, library)


def row(name, what, video):
    if video["status"] == "ready":
        size = f"{video['width']} x {video['height']}"
        picture = "" if video["thumbnail"] else ", no thumbnail"
        return f"| `{name}` | {what} | ready, {size}, {video['duration']:.1f} s{picture} |"
    return f"| `{name}` | {what} | failed: {video['error_message']} |"


def check(video, library):
    """What is published plays as long as the source says, in the size that is shown."""
    if video["status"] != "ready":
        assert not video["playable"]
        assert "/" not in video["error_message"]
        return
    (quality,) = video["qualities"]
    playlist = library / video["slug"] / video["version"] / quality["quality"] / "index.m3u8"
    assert probe_picture(playlist)[:2] == (quality["width"], quality["height"])
    assert abs(quality["width"] - video["width"]) <= 1
