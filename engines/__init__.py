"""Kozyr's game engines: pure rules, standard library only, usable on their own."""
