"""The published vectors are what the code makes, and a verifier that shares no code agrees."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.cli.vectors import document
from tests.verifier.node import ROOT, node

VECTORS = ROOT / "docs" / "fairness" / "vectors.json"


def test_the_published_vectors_are_what_the_code_makes() -> None:
    """Octet by octet: `kozyr fairness --vectors` writes the file."""
    assert VECTORS.read_text("utf-8") == document()


def test_the_other_verifier_agrees_on_every_vector() -> None:
    """JavaScript makes each of them again."""
    code, lines = node(VECTORS)
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("ok ")


def altered(value: Any) -> Iterator[Any]:
    """The vectors with one leaf of text or number changed, each kind of vector once or more."""
    for kind in value:
        if kind in ("about", "cards"):
            continue
        items = value[kind]["rows"] if kind == "chain" else value[kind]
        last = items[-1]
        for name, leaf in last.items():
            if name in ("about", "items", "game", "label", "fields", "receipt", "key", "seats"):
                continue
            kept = last[name]
            last[name] = changed(leaf)
            if last[name] != kept:
                yield f"{kind}.{name}", json.dumps(value)
            last[name] = kept


def changed(leaf: Any) -> Any:
    """Another value of the same kind."""
    match leaf:
        case str() if leaf.startswith("0"):
            return "1" + leaf[1:]
        case str() if leaf:
            return "0" + leaf[1:] if leaf[0] in "123456789abcdef" else leaf[::-1]
        case int():
            return leaf + 1
        case list() if leaf and isinstance(leaf[0], str):
            return [*leaf[:-1], changed(leaf[-1])]
        case _:
            return leaf


def test_the_other_verifier_refuses_a_vector_that_was_changed(tmp_path: Path) -> None:
    """It looks at every kind of vector: with any one value changed it says so."""
    files: list[Path] = []
    names: list[str] = []
    for name, text in altered(json.loads(document())):
        file = tmp_path / f"{len(files)}.json"
        file.write_text(text, "utf-8")
        files.append(file)
        names.append(name)
    code, lines = node(*files)
    assert code == 1
    passed = [name for name, line in zip(names, lines, strict=True) if line.startswith("ok")]
    assert passed == []
    assert {name.partition(".")[0] for name in names} == {
        *("framed", "commitments", "deal_seeds", "streams", "decks", "deals", "draws", "trees"),
        *("openings", "chain", "signatures"),
    }
