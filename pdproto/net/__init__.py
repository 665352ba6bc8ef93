"""What a process that is called by others needs: addresses of hosts, and threads that serve."""
