class Href:
    """Makes links.

    >>> href(is_=42)
    '/foo?is=42'

    Attributes are links too.
    """

    def __call__(self, *path, **query):
        return join(path, query)
