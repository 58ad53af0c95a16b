"""Builders of API objects and of whole random clusters."""
