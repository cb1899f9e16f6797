"""The URL of a world server: an address only, never a secret.

A URL is logged, shown in titles and error messages, written to run.toml and seen in the list of
processes. A token is none of that: it comes from the environment.
"""

from urllib.parse import urlsplit

_SHAPE = "expected http[s]://HOST[:PORT], for example http://worlds.example:8765"
_REMEDY = "put the server's token into the environment variable REHEARSE_TOKEN"


def url_fault(url: str) -> str:
    """Why the URL cannot be used, in a sentence that does not repeat it; empty: it can.

    Example: "http://ada:secret@host:8765" -> "the URL contains a user name or a password; …"
    """
    if "@" in url:
        return f"the URL contains a user name or a password; {_REMEDY}, and leave them out"
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isascii() or not url.isprintable() or " " in url:
        return f"the URL is not usable ({_SHAPE})"
    if "?" in url or "#" in url:
        return f"the URL contains a query or a fragment ({_SHAPE}); {_REMEDY}"
    return ""
