"""How a video is to be read. What is not said is as it is here."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fps = Annotated[float, Field(gt=0, le=240)]
Share = Annotated[float, Field(ge=0, le=1)]
Languages = Annotated[list[str], Field(min_length=1, max_length=20)]
Milliseconds = Annotated[int, Field(ge=0, lt=2**31)]
ClipId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

TARGET_FPS = 10.0
DEDUPE_THRESHOLD = 0.95
LANGUAGES = ("eng",)
MIN_CONFIDENCE = 0.6
PADDING_MS = 2000


class ReadingOptions(BaseModel):
    """Kept with the video, for its jobs."""

    model_config = ConfigDict(extra="forbid")

    target_fps: Fps = TARGET_FPS
    dedupe_threshold: Share = DEDUPE_THRESHOLD
    languages: Languages = Field(default_factory=lambda: list(LANGUAGES))
    min_confidence: Share = MIN_CONFIDENCE
