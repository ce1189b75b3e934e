"""From the engines' dataclasses to messages and back."""
