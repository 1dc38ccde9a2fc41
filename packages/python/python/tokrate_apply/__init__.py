"""Merges a model's code edit into the text of a file, or says why not.

Nothing is read or written here: text comes in, text goes out.
"""

from dataclasses import dataclass
from typing import List, Optional, Tuple

from . import _native

__all__ = ["Edit", "Outcome", "Refused", "edit"]


@dataclass(frozen=True)
class Edit:
    """Lines of the old text and the lines that replace them, counted from 1; a count may be 0."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


@dataclass(frozen=True)
class Refused:
    """Why an update was not merged: for the model that wrote it, to try again."""

    code: str
    message: str
    #: Lines in question, first and last, counted from 1.
    candidates: List[Tuple[int, int]]
    hint: str


@dataclass(frozen=True)
class Outcome:
    """The whole merged text, or a refusal: one of ``text`` and ``refused`` is None."""

    text: Optional[str]
    refused: Optional[Refused]
    #: False if the text already is as the update wants it.
    changed: bool
    edits: List[Edit]


def edit(path: str, text: str, update: str, format: Optional[str] = None) -> Outcome:
    """Merges an update into the text of a file.

    The path is only looked at for the language. Without a format the update's own text tells which it is.
    """
    merged, refused = _native.edit(path, text, update, format)
    if merged is None:
        return Outcome(None, Refused(*refused), False, [])
    new, changed, edits = merged
    return Outcome(new, None, changed, [Edit(*lines) for lines in edits])
