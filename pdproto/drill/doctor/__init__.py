"""`pdproto node doctor`: two hosts compare what they have in common, and hand over two pages."""
