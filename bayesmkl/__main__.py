"""Entry point of ``python -m bayesmkl``."""

from __future__ import annotations

from bayesmkl.cli import main

if __name__ == "__main__":
    main()
