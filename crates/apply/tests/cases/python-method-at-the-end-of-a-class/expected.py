class Cache:
    def __init__(self):
        self.items = {}

    def get(self, name):
        return self.items[name]

    def clear(self):
        self.items.clear()


class Other:
    def get(self, name):
        return None
