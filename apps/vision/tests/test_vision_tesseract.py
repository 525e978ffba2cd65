"""Scripts that the bundled model does not know are read by Tesseract, where it is installed."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from vision import tesseract
from vision.reading import UnknownLanguage, language_of, read, refuse_unknown

FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
TEXTS = {"rus": "Свежие лошади 4711", "ell": "Φρέσκα άλογα"}


def picture(text):
    image = Image.new("RGB", (640, 120), "white")
    ImageDraw.Draw(image).text((20, 30), text, font=ImageFont.truetype(str(FONT), 40), fill="black")
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("language", TEXTS)
def test_another_script_is_read_and_its_language_known(language):
    if language not in tesseract.installed_languages():
        pytest.skip(f"needs {tesseract.packages_for([language])}")
    if not FONT.exists():
        pytest.skip("needs fonts-dejavu-core")
    refuse_unknown(["eng", language])
    (line,) = read(picture(TEXTS[language]), ["eng", language], 0.6)
    assert line.text == TEXTS[language]
    assert line.box.x == pytest.approx(22, abs=8)
    assert language_of(line.text, ["eng", language]) == language


@pytest.fixture
def _without_tesseract(monkeypatch):
    tesseract.installed_languages.cache_clear()
    monkeypatch.setenv("PATH", "")
    yield
    tesseract.installed_languages.cache_clear()


@pytest.mark.usefixtures("_without_tesseract")
def test_where_it_is_missing_the_error_says_what_to_install():
    refuse_unknown(["eng", "deu", "jpn"])
    with pytest.raises(
        UnknownLanguage, match="Debian packages tesseract-ocr tesseract-ocr-kor tesseract-ocr-rus"
    ):
        refuse_unknown(["rus", "kor"])
