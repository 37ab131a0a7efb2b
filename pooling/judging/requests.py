"""Defines the requests that the judging page sends, and checks them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

Id = Annotated[str, StringConstraints(min_length=1)]
RequestId = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class Refused(Exception):
    """A request that can't be met. Its text is shown to the assessor."""


class PageRequest(BaseModel):
    """A request without content. Unknown keys are ignored; values are not converted from other types."""

    model_config = ConfigDict(strict=True)

    def arguments(self) -> dict[str, Any]:
        """Return the fields as arguments of the method that meets the request."""
        return dict(self)


class SignInRequest(PageRequest):
    """Sign in under a name."""

    name: Id


class DocumentOfTopic(PageRequest):
    """The part that requests about a document share."""

    topic: Id
    document: Id


class Change(PageRequest):
    """The part that requests share which are recognised by an id if the page sends them again."""

    request: RequestId


class GradedRequest(Change):
    """The part that a judgement and its correction share; the grade may lack only if the assessor can't judge."""

    grade: int | None = None
    cannot_judge: bool = False
    note: str = ""

    @field_validator("note")
    @classmethod
    def _clean(cls, note: str) -> str:
        if "\x00" in note:
            raise ValueError("holds a NUL character")
        return note.strip()

    def arguments(self) -> dict[str, Any]:
        """Return the fields, with the grade None if the assessor can't judge."""
        fields = dict(self)
        if fields.pop("cannot_judge"):
            return fields | {"grade": None}
        if self.grade is None:
            raise Refused("The grade is missing.")
        return fields


class JudgeRequest(DocumentOfTopic, GradedRequest):
    """Judge the document on the screen."""


class CorrectRequest(GradedRequest):
    """Give an earlier judgement another grade or note."""

    judgement: int


class SkipRequest(DocumentOfTopic, Change):
    """Lay the document on the screen aside."""


class UndoRequest(Change):
    """Withdraw the assessor's last judgement."""


class TurnRequest(PageRequest):
    """Turn to a topic; None lets the method choose it. Instead, a step turns to the next or previous topic with
    documents left for the assessor.
    """

    topic: Id | None = None
    step: Literal[1, -1] | None = None


class TakeRequest(DocumentOfTopic):
    """Judge a document that a search found."""


class JudgedRequest(PageRequest):
    """List the assessor's judgements, of one topic if given, made before the judgement `before` if given."""

    topic: Id | None = None
    before: int | None = None


class DocumentRequest(PageRequest):
    """Show the document of an earlier judgement."""

    judgement: int


class RestRequest(DocumentOfTopic):
    """Show more of a long document, from a character on."""

    start: int = Field(ge=0)


class SearchRequest(PageRequest):
    """Search the collection."""

    query: Id


class ResolveRequest(DocumentOfTopic, Change):
    """Decide which grade counts if assessors differ."""

    grade: int


Model = TypeVar("Model", bound=PageRequest)


def parse(body: bytes, model: type[Model]) -> Model:
    """Check the body of a request. Half a surrogate pair, which JSON may hold and no file can, becomes U+FFFD."""
    try:
        content = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Refused("Requests are JSON objects.")
    try:
        return model.model_validate(well_formed(content))
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise Refused(f"The {key} is missing or is not valid.") from None


def well_formed(value: Any) -> Any:
    """Replace half a surrogate pair by U+FFFD in every text of a JSON value."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {well_formed(key): well_formed(each) for key, each in value.items()}
    return [well_formed(each) for each in value] if isinstance(value, list) else value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
