"""`python -m kubesched` is the command `kubesched`."""

from kubesched.cli.main import main

if __name__ == "__main__":
    main()
