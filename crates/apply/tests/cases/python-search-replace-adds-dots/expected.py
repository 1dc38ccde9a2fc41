class Href:
    """Makes links.

    >>> href(is_=42)
    '/foo?is=42'
    >>> href({'foo': 'bar'}, bar=42)
    Traceback (most recent call last):
      ...
    TypeError: keywords and dicts cannot be combined

    Attributes are links too.
    """

    def __call__(self, *path, **query):
        return join(path, query)
