"""What `kozyr doctor` looks at, a module a subject."""
