"""Renders planned settings into the files of an instance. Pure: text in, text out."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2

from kedge.deploy.escaping import environment_value, java_name, property_key, property_value
from kedge.plan.inventory.secrets import mark

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
_COMMENT_COLUMNS = 110
#: The template of a file by its name or its ending; all others are properties.
_FORMATS = {
    "environment": "environment.j2",
    ".args": "arguments.j2",
    ".conf": "jaas.conf.j2",
    ".yaml": "yaml.j2",
    ".cfg": "haproxy.cfg.j2",
    ".json": "lines.j2",
    ".list": "lines.j2",
    ".map": "map.j2",
}
#: What names files with keys: keys of clients and listeners, and an option of a JAAS entry.
_STORES = ("keystore.location", "truststore.location", "kerberos.keytab")
_KEYTAB = re.compile(r'\bkeyTab="?([^"\s;]+)')
#: Where vendors' packages put themselves, and read their configuration.
_PACKAGES = PurePosixPath("/opt")


def render_instance(unit: str, instance: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of one planned instance: path inside its release -> content.

    A setting's file lies under ``/etc/UNIT/NAME/``, or is the instance's systemd drop-in, which goes to
    ``systemd/`` in the release. One under ``/opt`` is what a package's own start script reads: the release
    has it by its name, and the package's place becomes a link to it (see ``package_links``).

    Raises:
        ValueError: when a setting's file lies anywhere else, or two files would have one place.
    """
    files: dict[str, list[Mapping[str, Any]]] = {}
    places: dict[str, PurePosixPath] = {}
    for setting in instance["settings"]:
        path = PurePosixPath(setting["file"])
        relative = inside(unit, instance, setting)
        if places.setdefault(relative, path) != path:
            raise ValueError(f"{setting['key']}: {path} and {places[relative]} would be one file, {relative}")
        files.setdefault(relative, []).append(setting)
    return {path: render_settings(path, settings) for path, settings in sorted(files.items())}


def secrets_of(
    unit: str, instance: Mapping[str, Any], values: Mapping[str, str], read: Callable[[str], str]
) -> dict[str, str]:
    """Return what stands in the place of each mark in the files of ``render_instance``.

    ``values`` are the plan's secrets by their marks; ``read`` returns what a file of this machine holds.
    """
    found: dict[str, str] = {}
    for setting in instance["settings"]:
        path = inside(unit, instance, setting)
        if setting.get("copied"):
            found[mark(path, str(setting["value"]))] = read(str(setting["value"])).strip()
        elif setting["value"] in values:
            found[setting["value"]] = escaped(path, values[setting["value"]])
    return found


def host_files(unit: str, instance: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
    """Return the stores of keys and the keytabs of the host that one planned instance reads.

    Kedge brings none of them; ``values`` are the plan's secrets by their marks.
    """
    found: set[str] = set()
    for setting in instance["settings"]:
        value = values.get(str(setting["value"]), str(setting["value"]))
        found |= set(_KEYTAB.findall(value)) | ({value} if setting["key"].endswith(_STORES) else set())
    ours = PurePosixPath("/etc") / unit / str(instance["name"])
    return sorted(p for p in found if p.startswith("/") and not PurePosixPath(p).is_relative_to(ours))


def inside(unit: str, instance: Mapping[str, Any], setting: Mapping[str, Any]) -> str:
    """Return the path of a setting's file inside the release."""
    try:
        return _inside(unit, str(instance["name"]), setting["file"])
    except ValueError as error:
        raise ValueError(f"{setting['key']}: {error}") from None


@lru_cache(maxsize=4096)  # an instance has hundreds of settings in a few files
def _inside(unit: str, name: str, file: str) -> str:
    path = PurePosixPath(file)
    home = PurePosixPath("/etc") / unit / name
    dropin = PurePosixPath(f"/etc/systemd/system/{unit}@{name}.service.d")
    if path.is_relative_to(home):
        return str(path.relative_to(home))
    if path.parent == dropin:
        return f"systemd/{path.name}"
    if path.is_relative_to(_PACKAGES):
        return path.name
    raise ValueError(f"{path} is neither under {home} nor under {dropin} nor under {_PACKAGES}")


def package_links(unit: str, instance: Mapping[str, Any]) -> dict[str, str]:
    """Return where a package looks for files of one planned instance -> where they are, in its release."""
    paths = {PurePosixPath(setting["file"]) for setting in instance["settings"]}
    return {
        str(path): f"/etc/{unit}/{instance['name']}/{path.name}"
        for path in sorted(paths)
        if path.is_relative_to(_PACKAGES)
    }


def render_settings(path: str, settings: Iterable[Mapping[str, Any]]) -> str:
    """Return one file, in the format that its name asks for, each key under the reason for its value."""
    settings = list(settings)
    if held := parts_of(settings):
        return "".join(f"{mark(path, file)}\n" for file in held)
    if path.startswith("systemd/"):
        return render("dropin.conf.j2", settings=settings)
    name = PurePosixPath(path)
    template = _FORMATS.get(name.name) or _FORMATS.get(name.suffix, "properties.j2")
    return render(template, settings=settings)


def parts_of(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the files of the control machine that a planned file is put together from; none for others."""
    return [str(setting["value"]) for setting in settings if setting.get("copied")]


def escaped(path: str, value: str) -> str:
    """Return a value as it is written into a file of the format that the file's name asks for."""
    name = PurePosixPath(path)
    if name.name == "environment":
        return environment_value(value)[1:-1]
    return value if _FORMATS.get(name.suffix) else property_value(value)


def render(template: str, **values: Any) -> str:
    """Render a template of the shared folder; an undefined name is an error."""
    return _environment().get_template(template).render(**values)


# Compiling a template takes tens of milliseconds, and hundreds of files are made of ten.
@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - configuration files, not HTML
    )
    environment.filters["reason"] = _reason
    environment.filters["property_key"] = property_key
    environment.filters["property_value"] = property_value
    environment.filters["environment_value"] = environment_value
    environment.filters["regex_escape"] = re.escape
    environment.filters["keys_from"] = lambda settings, start: [
        s for s in settings if s["key"].startswith(start)
    ]
    environment.filters["java_reason"] = _java_reason
    environment.filters["java_long"] = lambda value: f"{int(value)}L"
    environment.filters["java_int"] = lambda value: str(int(value))
    environment.filters["java_double"] = lambda value: repr(float(value))
    environment.filters["java_name"] = java_name
    return environment


def reason(setting: Mapping[str, Any]) -> str:
    """Return in one line why a setting is so, by which rule, what it rests on, from which source."""
    text = f"{setting['because']} ({setting['rule']}; {setting['basis']}; {setting['source']})"
    return " ".join(text.split())


def _reason(setting: Mapping[str, Any]) -> str:
    """Return the comment above a key."""
    lines = textwrap.wrap(reason(setting), _COMMENT_COLUMNS, break_long_words=False)
    return "\n".join(f"# {line}" for line in lines)


def _java_reason(setting: Mapping[str, Any], indent: int = 4) -> str:
    """Return the comment above a line of Java; no reason can end it, or be read as an escape."""
    lines = _reason(setting).replace("\\", "/").splitlines()
    return "\n".join(f"{' ' * indent}//{line.removeprefix('#')}" for line in lines)
