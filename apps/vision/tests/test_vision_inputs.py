"""Real and broken inputs and what becomes of them: the table in the README."""

from pathlib import Path

import pytest
from vision_inputs import INPUTS

from posthouse.testing import drain
from vision.handlers import app
from vision.sample_video import render_video

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- inputs -->\n", "<!-- /inputs -->\n"
CAPTION = "Fresh horses 4711"


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    path = tmp_path_factory.mktemp("captioned") / "film.mp4"
    render_video(path, [[CAPTION]], seconds=1, size=(320, 180))
    return path


async def test_the_table_of_inputs_in_the_readme_is_right(running_app, folder, captioned):
    client = await running_app.client_for("tenant-admin", "acme")
    sent = {
        name: await _send(client, write(captioned, _own(running_app, name))) for name, write in INPUTS.items()
    }
    await drain(app)
    results = [(name, *await _result(client, answer)) for name, answer in sent.items()]
    lines = ["| input | result | size and duration | text |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(result)} |" for result in results]
    shown = README.read_text().partition(BEGIN)[2].partition(END)[0]
    assert shown == "\n".join([*lines, ""]), "replace the table in the README by this one:\n" + "\n".join(
        lines
    )
    for result in results:
        assert "/" not in result[1].replace(CAPTION, ""), "a path"
        assert "Errno" not in result[1]


def _own(running_app, name):
    folder = running_app.folder / "inputs" / name.replace(" ", "-")
    folder.mkdir(parents=True)
    return folder


async def _send(client, file):
    video_id = (await client.post("/vision/videos", json={})).json()["video_id"]
    put = await client.put(f"/vision/videos/{video_id}/original", content=file.read_bytes())
    return video_id if put.status_code == 204 else put.json()


async def _result(client, sent):
    if isinstance(sent, dict):
        return f"refused ({sent['status']}): {sent['detail']}", "", ""
    video = (await client.get(f"/vision/videos/{sent}")).json()
    if video["status"] == "failed":
        return f"failed: {video['error']}", "", ""
    found = (await client.get(f"/vision/videos/{sent}/segments")).json()
    said = "ready" if video["warning"] is None else f"ready, with a warning: {video['warning']}"
    shape = f"{video['width']} x {video['height']}, {video['duration_ms'] / 1000:.1f} s"
    poster = await client.get(f"/vision/media/session/{sent}/poster.jpg")
    assert poster.status_code == 200
    return (
        said,
        shape,
        "read" if [(one["text"], one["t_start"]) for one in found] == [(CAPTION, 0)] else str(found),
    )
