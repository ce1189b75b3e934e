"""What a client is told of the games before a table is opened."""

import pytest

from services.lobby.model import Variant
from services.lobby.variants import variant_info


@pytest.mark.parametrize("variant", list(Variant))
def test_every_game_offers_to_keep_decks_closed(variant: Variant) -> None:
    """`reveal` is listed with its values; by default decks are laid open."""
    (option,) = (
        option for option in variant_info(variant, "en").options if option.name == "reveal"
    )
    assert (option.type, option.default, list(option.choices)) == (
        "choice",
        "full",
        ["full", "own"],
    )
    assert option.description
