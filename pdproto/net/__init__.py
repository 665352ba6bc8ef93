"""What every process needs that is called by others: addresses of hosts, and rests of a thread."""
