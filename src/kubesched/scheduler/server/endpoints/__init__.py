"""The scheduler's own endpoints, as functions from requests to responses."""
