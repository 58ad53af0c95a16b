"""HTTP for the servers of this package: messages, one server on aiohttp, own certificates."""
