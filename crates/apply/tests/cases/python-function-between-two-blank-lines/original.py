def load(path):
    return read(path)


def store(path, text):
    write(path, text)
