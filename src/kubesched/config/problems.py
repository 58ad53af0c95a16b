"""What is wrong with a configuration, one problem at a time, for lists of them."""

from __future__ import annotations

from kubesched.config.field_errors import InvalidConfigurationError
from kubesched.config.load import StrictDecodingError
from kubesched.util.errors import ConfigError

__all__ = ["problems_of"]


def problems_of(error: ConfigError) -> tuple[str, ...]:
    """Split an error into the problems that it reports together; each is one line."""
    match error:
        case InvalidConfigurationError(errors=errors):
            texts = [str(problem) for problem in errors]
        case StrictDecodingError(problems=problems):
            texts = [f"strict decoding error: {problem}" for problem in problems]
        case _:
            texts = [str(error)]
    return tuple(dict.fromkeys(" ".join(text.split("\n")) for text in texts))
