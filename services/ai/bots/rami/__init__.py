"""Rami's bots."""

from services.ai.bots.rami.levels import choose

__all__ = ["choose"]
