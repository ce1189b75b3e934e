"""The lobby: who the players are, their tables and their seats."""
