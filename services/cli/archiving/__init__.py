"""Archives of finished months: written, checked, read, and the months taken out of the database."""
