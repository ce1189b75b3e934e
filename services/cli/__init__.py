"""The command line: `kozyr …`."""
