"""Ray actors that outlive a call: they hold what many processes share."""
