"""A model of one's own reads videos in place of the one that pip installs."""

from io import BytesIO
from pathlib import Path

import pytest
import rapidocr
from PIL import Image, ImageDraw, ImageFont

from vision.detector import ModelUnavailable
from vision.ocr import UnknownLanguage, check_languages, read_text, readable_languages

INSTALLED = Path(rapidocr.__file__).parent / "models"


def picture(text):
    image = Image.new("RGB", (640, 120), "white")
    ImageDraw.Draw(image).text((20, 30), text, font=ImageFont.load_default(40), fill="black")
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_a_folder_with_models_is_used_and_their_languages_too(tmp_path, monkeypatch):
    monkeypatch.setenv("VISION_MODEL", str(tmp_path / "my model"))
    with pytest.raises(
        ModelUnavailable, match=r"my model' that VISION_MODEL names: .*det\.onnx and rec\.onnx"
    ):
        read_text(picture("Hello"), ["eng"], 0.5)
    (tmp_path / "my model").mkdir()
    for name in ("det", "rec"):
        (tmp_path / "my model" / f"{name}.onnx").symlink_to(INSTALLED / f"PP-OCRv6_{name}_small.onnx")
    assert [line.text for line in read_text(picture("Hello"), ["eng"], 0.5)] == ["Hello"]
    monkeypatch.setenv("VISION_MODEL_LANGUAGES", "eng, isl")
    assert {"eng", "isl"} <= readable_languages()
    check_languages(["eng", "isl"])
    with pytest.raises(UnknownLanguage, match="unsupported language: jpn"):
        check_languages(["jpn"])
