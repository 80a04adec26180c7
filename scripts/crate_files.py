#!/usr/bin/env python3
"""Writes what each published crate has beside its sources: its README, from the text at the head of its library, and
links to the licences, which cargo packs as files.

    scripts/crate_files.py           write them
    scripts/crate_files.py --check   say whether they are as they would be written
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]

FOOT = """
This crate is a part of Tegula, a compiler for machine-learning programs.

Licensed under either of Apache-2.0 or MIT, as you like.
"""


def head(source: Path) -> str:
    """The documentation at the head of a library, without links that only rustdoc resolves."""
    lines = []
    for line in source.read_text().splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[3:].removeprefix(" "))
    text = "\n".join(lines)
    # Code: rustdoc's hidden lines are not shown, and it is Rust.
    parts = text.split("```")
    for at in range(1, len(parts), 2):
        language, _, code = parts[at].partition("\n")
        shown = [line for line in code.split("\n") if not re.match(r"#( |$)", line.strip())]
        parts[at] = (language or "rust") + "\n" + "\n".join(shown)
    # Headings are below the crate's name.
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"^(#+ )", r"#\1", parts[at], flags=re.M)
    text = "```".join(parts)
    text = re.sub(r"\[(`[^`\]]+`)\](\([^)]*\))?(?!\()", r"\1", text)
    return re.sub(r"\[([^\]`]+)\]\((?!http)[^)]*\)", r"\1", text)


def readme(crate: Path) -> str | None:
    manifest = (crate / "Cargo.toml").read_text()
    if "publish = false" in manifest:
        return None
    name = re.search(r'^name = "(.*)"', manifest, re.M).group(1)
    library = crate / "src/lib.rs"
    text = head(library if library.is_file() else crate / "src/main.rs")
    return f"# {name}\n\n{text.strip()}\n{FOOT}"


def main() -> int:
    checks = "--check" in sys.argv
    wrong = []
    for crate in sorted((ROOT / "crates").iterdir()):
        text = readme(crate)
        if text is None:
            continue
        path = crate / "README.md"
        if not path.is_file() or path.read_text() != text:
            wrong.append(path)
            if not checks:
                path.write_text(text)
        for name in LICENCES:
            path = crate / name
            if not path.is_file() or path.read_text() != (ROOT / name).read_text():
                wrong.append(path)
                if not checks:
                    path.unlink(missing_ok=True)
                    path.symlink_to(Path("../..") / name)
    if wrong and checks:
        print("write them with scripts/crate_files.py:", *(path.relative_to(ROOT) for path in wrong))
        return 1
    return 0


sys.exit(main())
