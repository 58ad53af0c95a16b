"""HTTP for the servers of this package: messages, a server on aiohttp, and certificates."""
