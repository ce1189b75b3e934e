"""Azi's bots."""

from services.ai.bots.azi.levels import choose

__all__ = ["choose"]
