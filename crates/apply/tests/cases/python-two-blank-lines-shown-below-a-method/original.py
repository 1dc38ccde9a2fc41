class Group:
    def commands(self):
        return sorted(self.names)

    def main(self, *args, **kwargs):
        load_settings()
        kwargs["obj"] = Info()
        return super().main(*args, **kwargs)


def is_ancestor(path, other):
    return path in other.parents
