"""The resources that the server serves, and the catalog that finds them."""
