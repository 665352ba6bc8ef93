"""The only threads and sockets: the ZeroMQ shell, the HTTP registry, and the nodes on them."""
