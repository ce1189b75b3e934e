"""Checks receipts of Kozyr's games without any server: the standard library and `engines` alone."""
