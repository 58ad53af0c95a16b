"""The frame of an HTML document that needs no other file."""

from __future__ import annotations

from html import escape
from typing import Final

__all__ = ["html_document"]

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;
color:#1b1f24;background:#fff;overflow-wrap:anywhere}
h1{font-size:1.3rem;line-height:1.3}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
p{margin:.4rem 0}.first{font-size:1.05rem}.fits{color:#116329}.pending{color:#a40e26}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
td,th{padding:.25rem .9rem .25rem 0;text-align:left;border-bottom:1px solid #d8dee4;
vertical-align:top;overflow-wrap:normal}td.n,th.n{text-align:right;white-space:nowrap}
ol,ul{padding-left:1.4rem;margin:.3rem 0}li{margin:.25rem 0}
code{background:#f2f4f6;padding:.1rem .3rem;border-radius:4px;font-size:.85rem}.dim{color:#57606a}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}
.fits{color:#56d364}.pending{color:#ff8182}code{background:#21262d}td,th{border-color:#30363d}
.dim{color:#9198a1}}
"""


def html_document(title: str, body: str) -> str:
    """Return a whole document around a body of HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )
