import json


@cached
def load(path):
    """Reads settings of any kind."""
    raw = Path(path).read_bytes()
    if not raw:
        return {}
    return tomllib.loads(raw.decode())


def save(path, settings):
    text = json.dumps(settings)
    with open(path, "w") as file:
        file.write(text)
