"""Generates the Python of the wire contract: proto/kozyr/**/*.proto into proto/gen.

Run it with the interpreter of an environment that has the development requirements; `make proto`
does. With `--check` it writes nothing and fails when the committed code is not what it would write.
"""

import argparse
import re
import sys
import sysconfig
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
GENERATED = PROTO / "gen"
SERVICE = re.compile(r"^service\s", re.MULTILINE)


def compile_all(out: Path) -> None:
    """Writes the code of every proto below `out`, as typed packages."""
    sources = sorted((PROTO / "kozyr").rglob("*.proto"))
    serving = [source for source in sources if SERVICE.search(source.read_text("utf-8"))]
    run_protoc(out, sources, ("python", "mypy"))
    if serving:
        run_protoc(out, serving, ("grpc_python", "mypy_grpc"))
    for folder in (out / "kozyr").rglob("*/"):
        (folder / "__init__.py").touch()
    (out / "kozyr" / "__init__.py").touch()
    (out / "kozyr" / "py.typed").touch()


def run_protoc(out: Path, sources: list[Path], plugins: tuple[str, ...]) -> None:
    """Runs the bundled protoc with some plugins; raises SystemExit when it refuses a source."""
    scripts = Path(sysconfig.get_path("scripts"))
    arguments = [
        "protoc",
        f"--proto_path={PROTO}",
        f"--proto_path={resources.files('grpc_tools') / '_proto'}",
        f"--proto_path={sysconfig.get_path('purelib')}",
    ]
    for plugin in plugins:
        quiet = ""
        if plugin.startswith("mypy"):
            quiet = "quiet:"
            arguments.append(f"--plugin=protoc-gen-{plugin}={scripts / f'protoc-gen-{plugin}'}")
        arguments.append(f"--{plugin}_out={quiet}{out}")
    if protoc.main([*arguments, *(str(source) for source in sources)]) != 0:
        raise SystemExit("protoc refused the contract; its message is above")


def contents(root: Path) -> dict[Path, bytes]:
    """Every generated file below `root` by its relative path."""
    files = (p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(root): p.read_bytes() for p in files}


def main() -> int:
    """Generates, or with `--check` compares; returns the exit code."""
    parser = argparse.ArgumentParser(description="Generate the Python of the wire contract.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory(prefix="kozyr-proto-") as temporary:
        compile_all(Path(temporary))
        wanted, present = contents(Path(temporary)), contents(GENERATED)
    different = sorted(p for p in wanted | present if wanted.get(p) != present.get(p))
    for path in different:
        print(f"{'differs' if check else 'written' if path in wanted else 'removed'}: gen/{path}")
        if check:
            continue
        target = GENERATED / path
        if path in wanted:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(wanted[path])
        else:
            target.unlink()
    if check and different:
        print("the committed code is not what the contract gives: run `make proto`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
