"""What a spec gives to tests: machines that fuzz live ends, tours, and a kit for other engines."""
