"""`kozyr play`: lobby, tables and the three games at a terminal, with a server or without one."""

from services.cli.play.command import parser, run
