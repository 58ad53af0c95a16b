"""The program: `kubesched run` with the house's plugins built in."""

from __future__ import annotations

import functools

from house_scheduler.rules import NightShift, SpareNodes
from kubesched import app

# A class is a factory; a partial of it is another plugin with other settings.
PLUGINS = {
    "SpareNodes": SpareNodes,
    "NightShift": functools.partial(NightShift, opens=20, closes=6),
}


def main() -> None:
    """Run the scheduler; it takes every flag that kube-scheduler takes."""
    app.main(plugins=PLUGINS)


if __name__ == "__main__":
    main()
