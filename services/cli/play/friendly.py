"""Refusals in a friendly line: what the rules or a service said no to, and what may be done."""

from engines.api import InvalidOption, RuleViolation
from services.kernel.errors import Kind, Refused

SAID = {
    "ALREADY_DRAWN": "You have drawn already: lay, or discard a card.",
    "ALREADY_LOOKED": "You have looked at your cards already.",
    "ALREADY_SEATED": "You sit at a table already.",
    "ATTACK_LIMIT": "No more cards may be added in this bout.",
    "BID_LIMIT": "You have raised three times; level or fold.",
    "BID_TOO_LOW": "That bid is too low.",
    "CARD_NOT_IN_HAND": "You do not hold that card.",
    "DEADLINE_PASSED": "Your time for that was up.",
    "DOES_NOT_BEAT": "That card does not beat it.",
    "DUPLICATE_CARD": "A card counts once only.",
    "EMPTY_DISCARD": "The discard pile is empty.",
    "GAME_OVER": "The game is over.",
    "GAME_RUNNING": "That is not possible while a game is played.",
    "INSUFFICIENT_CHIPS": "You have too few chips for that.",
    "KICKED": "The host has sent you away from the table.",
    "INVALID_MELD": "These cards make no combination there.",
    "MUST_ATTACK": "Attack with a card first.",
    "MUST_BID": "Whoever opens must bid.",
    "MUST_DRAW": "Draw a card first.",
    "MUST_FOLLOW_SUIT": "Follow suit: you hold a card of the suit that was led.",
    "MUST_KEEP_CARD": "Keep a card: the last one must be discarded.",
    "MUST_LEVEL": "You have enough to level; all in is for who has not.",
    "MUST_TRUMP": "Play a trump: you hold one and cannot follow suit.",
    "NOT_SEATED": "You do not sit there.",
    "NOT_YOUR_TURN": "It is not your turn.",
    "RANK_NOT_ON_TABLE": "Add only cards of a rank that lies on the table.",
    "SAME_DISCARD": "You took that card from the pile; discard another one.",
    "SEATED": "You sit at a table already.",
    "STALE_TURN": "The game went on meanwhile.",
    "STACK_BELOW_ENTRY_FEE": "Your stack is below the entry fee: top up with u.",
    "TABLE_CLOSED": "The table is closed.",
    "TABLE_FULL": "All seats there are taken.",
    "TABLE_NOT_FOUND": "There is no such table, or its code is another one.",
    "TARGET_REQUIRED": "The marked cards fit on none of the combinations.",
    "TOO_FEW_PLAYERS": "Two players at least are needed.",
    "UNKNOWN_MELD": "There is no such combination.",
    "WRONG_PHASE": "That is not what is asked now.",
}
"""Words for reasons a player meets while playing; for all others the service's own."""


def friendly(error: Refused | RuleViolation | InvalidOption) -> str:
    """One line for a person."""
    match error:
        case InvalidOption():
            return f"{error.option.replace('_', ' ')} {error.problem}."
        case RuleViolation():
            return SAID.get(error.reason, _words(error.reason))
        case Refused():
            return _refused(error)


def _refused(refused: Refused) -> str:
    if refused.reason in SAID:
        return SAID[refused.reason]
    if refused.kind in (Kind.UNAVAILABLE, Kind.EXPIRED):
        return "The server does not answer; trying goes on."
    fields = "; ".join(f"{each.field} {each.problem}" for each in refused.fields)
    said = fields or refused.message or _words(refused.reason)
    said = said[0].upper() + said[1:]
    wait = refused.retry_after_ms
    later = f" Try again in {max(1, round(wait / 1_000))} s." if wait else ""
    return f"{said.rstrip('.')}.{later}"


def _words(reason: str) -> str:
    return f"{reason.replace('_', ' ').capitalize()}."
