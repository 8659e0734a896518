"""Games between players: matches on the device, players of other libraries, tournaments."""
