"""How keys and values are written into properties and environment files and Java. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Iterable


def property_key(key: str) -> str:
    """Escape a key as java.util.Properties reads it."""
    return "".join(f"\\{c}" if c in " :=\\" else c for c in key)


def property_value(value: str) -> str:
    """Escape a value as java.util.Properties reads it (ISO 8859-1, backslash escapes)."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    if escaped.startswith(" "):
        escaped = f"\\{escaped}"
    return "".join(c if " " <= c <= "~" else "".join(f"\\u{u:04x}" for u in _utf16(c)) for c in escaped)


def _utf16(character: str) -> Iterable[int]:
    data = character.encode("utf-16-be")
    return (int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))


def environment_value(value: str) -> str:
    """Quote a value as systemd reads an environment file."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{escaped}"'


def java_name(value: str) -> str:
    """Return a name of a Java constant; raises ValueError for what is none."""
    if not value.isidentifier():
        raise ValueError(f"{value!r} is no name of a Java constant")
    return value
