"""Scripts that the bundled model does not know are read by Tesseract, where it is installed."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from posthouse.testing import drain
from vision import tesseract
from vision.bench.scenes import write_video
from vision.handlers import app
from vision.ocr import UnknownLanguage, check_languages, language_of, read_text

FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
TEXT = "Свежие лошади 4711"
LANGUAGES = ["rus", "eng"]


@pytest.fixture
def picture():
    if "rus" not in tesseract.installed_languages():
        pytest.skip(f"needs {tesseract.packages_for(['rus'])}")
    if not FONT.exists():
        pytest.skip("needs fonts-dejavu-core")
    image = Image.new("RGB", (640, 120), "white")
    ImageDraw.Draw(image).text((20, 30), TEXT, font=ImageFont.truetype(str(FONT), 40), fill="black")
    return image


def test_another_script_is_read_and_its_language_known(picture):
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    check_languages(LANGUAGES)
    (line,) = read_text(buffer.getvalue(), LANGUAGES, 0.6)
    assert line.text == TEXT
    assert line.box.x == pytest.approx(22, abs=8)
    assert language_of(line.text, ["eng", "rus"]) == "rus"


async def test_a_video_with_another_script_is_found_by_its_words(running_app, folder, send, picture):
    write_video(running_app.folder / "film.mp4", picture.size, [picture])
    client = await running_app.client_for("tenant-admin", "acme")
    assert {"eng", "rus", "jpn"} <= set((await client.get("/vision/languages")).json())
    await send(client, running_app.folder / "film.mp4", options={"languages": LANGUAGES})
    await drain(app)
    (hit,) = (await client.get("/vision/search", params={"q": "ЛОШАДИ"})).json()
    assert (hit["text"], hit["language"]) == (TEXT, "rus")


@pytest.fixture
def _without_tesseract(monkeypatch):
    tesseract.installed_languages.cache_clear()
    monkeypatch.setenv("PATH", "")
    yield
    tesseract.installed_languages.cache_clear()


@pytest.mark.usefixtures("_without_tesseract")
def test_where_it_is_missing_the_error_says_what_to_install():
    check_languages(["eng", "deu", "jpn"])
    with pytest.raises(
        UnknownLanguage, match="Debian packages tesseract-ocr tesseract-ocr-kor tesseract-ocr-rus"
    ):
        check_languages(["rus", "kor"])
