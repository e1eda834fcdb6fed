"""Models that are made of models: those that the tests of their adapters know."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue.case import Case
from composites import MODELS, REFUSED


def cases() -> list[Case]:
    """Return the cases."""
    return [*_cases()]


def _cases() -> Iterator[Case]:
    for name, make in MODELS.items():
        yield Case("Models of models", *_named(name), make, whole=True)
    for name, (make, reason) in REFUSED.items():
        yield Case("Models of models", *_named(name), make, refused=reason, whole=True)


def _named(name: str) -> tuple[str, str]:
    """Return model and setting of a name."""
    model, _, setting = name.partition(", ")
    return model, setting or "default"
