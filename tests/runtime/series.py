"""The series of this process's metrics as numbers."""

from collections.abc import Mapping

from services.runtime.metrics import REGISTRY

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A sample's name and its labels."""


def series() -> Mapping[Series, float]:
    """All of them now."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
    }


def moved(before: Mapping[Series, float]) -> dict[Series, float]:
    """By how much each has changed since; what was not there counted as 0."""
    now = series()
    changes = {key: value - before.get(key, 0.0) for key, value in now.items()}
    return {key: change for key, change in changes.items() if change}
