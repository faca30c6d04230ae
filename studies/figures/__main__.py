"""``python -m studies.figures``."""

from studies.figures.run import main

if __name__ == "__main__":
    main()
