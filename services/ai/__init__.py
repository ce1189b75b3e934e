"""The ai service: bots that see what their seat sees, and nothing more."""
