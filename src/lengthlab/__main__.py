"""`python -m lengthlab X …` is `lengthlab X …`."""

from lengthlab.commands.main import main

if __name__ == "__main__":
    main()
