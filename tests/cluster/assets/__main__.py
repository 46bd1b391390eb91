"""`make cluster-assets`: build every program (or those named), and print where they are."""

import sys

from tests.cluster.assets.build import HOW_TO_GET, Assets
from tests.cluster.assets.errors import AssetsError, Unavailable
from tests.cluster.assets.programs import PROGRAMS


def main(names: list[str]) -> int:
    """0 when all are there, 1 when one cannot be had, 2 when there is none of that name."""
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        print(f"no program is called {unknown[0]}; there are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    assets = Assets(say=lambda line: print(line, flush=True))
    for name in names or PROGRAMS:
        try:
            path = assets.get(name)
        except AssetsError as error:
            advice = f"; {HOW_TO_GET}" if isinstance(error, Unavailable) else ""
            print(f"cluster-assets: {error}{advice}", file=sys.stderr)
            return 1
        print(f"{name:24} {path}")
    print(f"cache: {assets.root}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
