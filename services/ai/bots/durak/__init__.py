"""Durak's bots."""

from services.ai.bots.durak.levels import choose

__all__ = ["choose"]
