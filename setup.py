"""The one thing that pyproject.toml cannot express: a wheel carries scenarios and documentation pages inside the package.

In a checkout they lie at the top, where people look for them, and an editable installation reads them there; in a wheel
the same files lie in ``plainchant/scenarios/`` and ``plainchant/docs/`` (``core/shipped.py`` finds them).
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("scenarios/*.toml", "docs/*.md")


class BuildWithFiles(build_py):
    """Copies the shipped files beside the modules."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "plainchant"
        for pattern in SHIPPED:
            for file in sorted(Path().glob(pattern)):
                (package / file.parent).mkdir(parents=True, exist_ok=True)
                self.copy_file(str(file), str(package / file))


setup(cmdclass={"build_py": BuildWithFiles})
