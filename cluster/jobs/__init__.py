"""Jobs on a Ray cluster: sending a command there, watching it and ending it."""
