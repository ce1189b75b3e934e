"""The wallet: chips in double entry."""
