import json


@cached
def load(path):
    """Reads a file of settings."""
    with open(path) as file:
        text = file.read()
    return json.loads(text)


def save(path, settings):
    text = json.dumps(settings)
    with open(path, "w") as file:
        file.write(text)
