"""The game service: every game as an append-only event log."""
