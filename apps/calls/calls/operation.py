"""Operations of the cloud's asynchronous recognition, as they stand in its answers.

One that is done has either a response or an error. The local recogniser answers in the same form.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ValidationError, model_validator

from calls.transcript import Phrase, Transcript, Word

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class MalformedAnswer(Exception):
    """What came back is not what the protocol says."""


class OperationFailed(Exception):
    """The recogniser has given up."""


def _seconds(text: object) -> float:
    found = _SECONDS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{text!r} is no time like 1.5s")
    return float(found[1])


Seconds = Annotated[float, BeforeValidator(_seconds)]


class SpokenWord(BaseModel):
    word: str
    startTime: Seconds  # noqa: N815 - the cloud's names
    endTime: Seconds  # noqa: N815


class Alternative(BaseModel):
    text: str
    words: list[SpokenWord]


class Chunk(BaseModel):
    alternatives: list[Alternative]
    channelTag: str = "1"  # noqa: N815


class Response(BaseModel):
    chunks: list[Chunk] = []


class Trouble(BaseModel):
    code: int = 0
    message: str = ""


class Operation(BaseModel):
    id: str
    done: bool = False
    response: Response | None = None
    error: Trouble | None = None

    @model_validator(mode="after")
    def _says_how_it_ended(self) -> Self:
        if self.done and self.response is None and self.error is None:
            raise ValueError("it is done, but there is neither a response nor an error")
        return self

    def transcript(self) -> Transcript:
        """The likeliest reading of each chunk. Raises OperationFailed if there is none."""
        if self.response is None:
            why = self.error or Trouble(message="it is not done")
            raise OperationFailed(f"operation {self.id} failed with code {why.code}: {why.message}")
        phrases = [_phrase(chunk) for chunk in self.response.chunks if chunk.alternatives]
        heard = [phrase for phrase in phrases if phrase.words]
        return Transcript(phrases=sorted(heard, key=lambda phrase: (phrase.words[0].start, phrase.speaker)))


def read_operation(answer: bytes) -> Operation:
    try:
        return Operation.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(item) for item in first["loc"]) or "the answer"
        raise MalformedAnswer(f"an operation was expected; {place}: {first['msg']}") from None


def _phrase(chunk: Chunk) -> Phrase:
    best = chunk.alternatives[0]
    words = [Word(text=word.word, start=word.startTime, end=word.endTime) for word in best.words]
    return Phrase(speaker=chunk.channelTag, text=best.text, words=words)
