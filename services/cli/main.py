"""The entry of `kozyr`: finds the command, runs it, and turns what went wrong into one line.

A command is a module with `parser()`, its arguments and an example, and `run(arguments)`, which
returns the exit code. Only the module of the command that is asked for is imported.
"""

import importlib
import sys
from collections.abc import Sequence

from services.cli.outcome import FINE, UNREACHABLE, USAGE, WRONG, Failure
from services.client.profile import FileFault
from services.kernel.errors import Kind, Refused
from services.runtime.release import release

COMMANDS = {
    "up": "run the four services on this machine",
    "play": "play azi, durak or rami at this terminal",
    "rules": "read the rules of a game, in English, Portuguese or Georgian",
    "tables": "list tables; invite, send away, hand over, play again",
    "games": "list games",
    "watch": "follow a game as it is played",
    "replay": "step through a finished game, or one of your own",
    "share": "make a link to a game of yours, for anybody to look at",
    "doctor": "look over a running installation and say what to do",
    "accesses": "list what operators looked at",
    "checkpoints": "keep and check the signed record over all games",
    "audit": "re-execute a game's log and check everything in it",
    "export": "write a game's signed receipt as one JSON document",
    "verify": "check receipts, with no server",
    "archive": "write a finished month to files, check them, take it out of the database",
    "fairness": "shuffle many decks and judge how even they are",
    "dispute": "complain about a game; judge complaints, with evidence and chips",
    "account": "choose a password, come back elsewhere, end sessions",
    "me": "see and keep what is held about you, or have yourself erased",
    "players": "see what is held about a player, erase a player, as an operator",
    "leaders": "the leaderboard of a game",
    "standing": "compare statistics with the games' logs, as an operator",
    "wallet": "look at chips: balance, statement, grants, trial balance",
    "token": "sign a token, for an operator or a tool",
    "scenario": "run rulings written as data",
    "bench": "measure",
    "rekey": "exchange the master key that seals hidden cards",
    "keygen": "make the keys that services sign and seal with",
    "demo": "play whole games over the four services and check all of it",
    "serve": "run one service",
    "migrate": "bring databases up to date",
}
"""Every command, in the order of the overview; the module has the command's name."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if words and words[0] in ("-h", "--help", "help"):
        print(overview())
        return FINE
    if words and words[0] in ("-V", "--version"):
        print(f"kozyr {release()}")
        return FINE
    if not words:
        sys.stderr.write(overview() + "\n")
        return USAGE
    if words[0] not in COMMANDS:
        return _complain("", f"there is no command {words[0]!r}; `kozyr --help` lists them", USAGE)
    return _guarded(words[0], words[1:])


def overview() -> str:
    """What there is, one line a command."""
    lines = ["usage: kozyr COMMAND ...", "", "Azi, Durak and Rami: hosted, logged, replayed.", ""]
    lines += [f"  {name:<11} {summary}" for name, summary in COMMANDS.items()]
    lines += ["", "`kozyr COMMAND --help` says more; begin with `kozyr up` or"]
    lines += ["`kozyr play durak --offline`."]
    return "\n".join(lines)


def _guarded(command: str, words: Sequence[str]) -> int:
    try:
        module = importlib.import_module(f"services.cli.{command}")
        code: int = module.run(module.parser().parse_args(words))
        sys.stdout.flush()
    except Failure as failure:
        return _complain(command, failure.line, failure.code)
    except FileFault as fault:
        return _complain(command, str(fault), WRONG)
    except Refused as refused:
        return _complain(command, refusal_line(refused), refusal_code(refused))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from services.cli.terminal import say_the_rest

        say_the_rest()
        return WRONG
    return code


def refusal_line(refused: Refused) -> str:
    """A service's refusal in one line, its reason first."""
    fields = "; ".join(f"{f.field} {f.problem}" for f in refused.fields)
    said = refused.message or fields or "refused"
    return f"{refused.reason}: {said}"


def refusal_code(refused: Refused) -> int:
    """The exit code of a refusal: a service that does not answer is told from one that says no."""
    return UNREACHABLE if refused.kind in (Kind.UNAVAILABLE, Kind.EXPIRED) else WRONG


def _complain(command: str, line: str, code: int) -> int:
    where = f"kozyr {command}".strip()
    sys.stderr.write(f"{where}: {' '.join(line.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
