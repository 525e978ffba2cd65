"""Options for reading a video, with their defaults."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

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
CLIP_LIFE = timedelta(days=30)


class ReadingOptions(BaseModel):
    """How to read a video. Stored with the video."""

    model_config = ConfigDict(extra="forbid")

    target_fps: Fps = Field(default=TARGET_FPS, description="Frames per second to sample.")
    dedupe_threshold: Share = Field(
        default=DEDUPE_THRESHOLD, description="Skip frames that are more similar than this to the last one."
    )
    languages: Languages = Field(
        default_factory=lambda: list(LANGUAGES), description="Languages of the texts, such as eng."
    )
    min_confidence: Share = Field(
        default=MIN_CONFIDENCE, description="Ignore texts recognized with less confidence."
    )

    def sampling(self) -> dict[str, Any]:
        """Return the parameters of the job that samples frames."""
        return self.model_dump(include={"target_fps", "dedupe_threshold"})

    def recognition(self) -> dict[str, Any]:
        """Return the parameters of the jobs that read text."""
        return self.model_dump(include={"languages", "min_confidence"})
