"""Operations of the asynchronous recognition API, as in its responses.

A finished operation has either a response or an error. The local recogniser uses the same format.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ValidationError, model_validator

from calls.transcript import Phrase, Transcript, Word

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class MalformedAnswer(Exception):
    """The response does not follow the protocol."""


class OperationFailed(Exception):
    """The recognition failed."""


def _seconds(text: object) -> float:
    found = _SECONDS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"invalid duration {text!r}; expected a value like 1.5s")
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
            raise ValueError("the operation is done but has neither a response nor an error")
        return self

    def transcript(self) -> Transcript:
        """Return the most likely text of each chunk. Raises OperationFailed without a response."""
        if self.response is None:
            why = self.error or Trouble(message="the operation is not done")
            raise OperationFailed(f"operation {self.id} failed with code {why.code}: {why.message}")
        phrases = [_phrase(chunk) for chunk in self.response.chunks if chunk.alternatives]
        heard = [phrase for phrase in phrases if phrase.words]
        return Transcript(phrases=sorted(heard, key=lambda phrase: (phrase.words[0].start, phrase.speaker)))


def read_operation(answer: bytes) -> Operation:
    try:
        return Operation.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(item) for item in first["loc"]) or "the response"
        raise MalformedAnswer(f"invalid response: expected an operation; {place}: {first['msg']}") from None


def _phrase(chunk: Chunk) -> Phrase:
    best = chunk.alternatives[0]
    words = [Word(text=word.word, start=word.startTime, end=word.endTime) for word in best.words]
    return Phrase(speaker=chunk.channelTag, text=best.text, words=words)
