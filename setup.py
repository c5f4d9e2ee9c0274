"""The one thing that pyproject.toml cannot say: a wheel carries ``scenarios/`` inside the package.

In a checkout the scenarios lie at the top, where people look for them, and an editable installation reads them there;
in a wheel the same files lie in ``plainchant/scenarios/``.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithScenarios(build_py):
    """Copies the scenarios beside the modules."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib) / "plainchant" / "scenarios"
        folder.mkdir(parents=True, exist_ok=True)
        for scenario in sorted(Path("scenarios").glob("*.toml")):
            self.copy_file(str(scenario), str(folder / scenario.name))


setup(cmdclass={"build_py": BuildWithScenarios})
