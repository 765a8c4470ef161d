"""The types of the package agree with what it does."""

from __future__ import annotations

import importlib.util
import pathlib

import argiope

HERE = pathlib.Path(__file__).parent.parent


def test_the_settings_are_those_of_the_crawler() -> None:
    spec = importlib.util.spec_from_file_location("generate_settings", HERE / "generate_settings.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (pathlib.Path(argiope.__file__).parent / "_settings.py").read_text()
    assert written == generator.text(), "run: python crates/python/generate_settings.py > .../_settings.py"


def test_every_public_name_has_a_docstring() -> None:
    for name in argiope.__all__:
        found = getattr(argiope, name)
        if name != "__version__":
            assert found.__doc__, name
            members = [] if not isinstance(found, type) else vars(found).items()
            for member, value in members:
                if not member.startswith("_") and callable(value):
                    assert value.__doc__, f"{name}.{member}"
