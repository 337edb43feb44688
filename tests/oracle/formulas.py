"""The formulas' modules, as they stand or with one place changed."""

import sys
import types
from pathlib import Path

NAMES = ("fits", "classes", "sweeps")
"""In the order in which they import each other."""


def load(changed=None, old="", new=""):
    """{name: module}, with the one place that reads `old` in the module `changed` reading `new` instead."""
    before = {name: sys.modules.pop(name, None) for name in NAMES}
    modules = {}
    for name in NAMES:
        path = Path(__file__).parent / f"{name}.py"
        source = path.read_text()
        if name == changed:
            if source.count(old) != 1:
                sys.exit(f"`{old}` stands in {path.name} {source.count(old)} times, and once was expected")
            source = source.replace(old, new)
        module = types.ModuleType(name)
        # What is imported by name further down must be this one.
        sys.modules[name] = modules[name] = module
        exec(compile(source, str(path), "exec"), module.__dict__)
    sys.modules.update({name: module for name, module in before.items() if module})
    return modules


SOUND = load()
