"""``python -m studies.peers``."""

from studies.peers.run import main

if __name__ == "__main__":
    main()
