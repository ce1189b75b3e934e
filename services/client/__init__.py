"""A player's side of the API, for programs that play: `docs/clients.md` begins with one."""
