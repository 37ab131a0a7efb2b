"""Where it runs: sessions, studies, the command line. Knows every other package and is known by none."""
