"""The event store: append-only streams of events on SQLite and PostgreSQL."""
