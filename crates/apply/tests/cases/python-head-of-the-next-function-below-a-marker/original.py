"""A small store."""
import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass
class Item:
    name: str
    price: float
    tags: list[str] = field(default_factory=list)

    def total(self, count: int) -> float:
        return self.price * count


class Store:
    def __init__(self, path: str):
        self.path = path
        self.items: dict[str, Item] = {}
        self.load()

    def load(self) -> None:
        if not os.path.exists(self.path):
            return
        with open(self.path) as f:
            data = json.load(f)
        for row in data:
            self.items[row["name"]] = Item(**row)

    def save(self) -> None:
        with open(self.path, "w") as f:
            json.dump([vars(i) for i in self.items.values()], f)

    def add(self, item: Item) -> None:
        self.items[item.name] = item
        self.save()

    def get(self, name: str) -> Optional[Item]:
        return self.items.get(name)

    def remove(self, name: str) -> None:
        if name in self.items:
            del self.items[name]
        self.save()


def main() -> None:
    store = Store("items.json")
    store.add(Item("pen", 1.5))
    print(store.get("pen"))


if __name__ == "__main__":
    main()
