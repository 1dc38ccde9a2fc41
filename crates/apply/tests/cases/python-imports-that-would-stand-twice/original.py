from functools import partial

import pytest
from test_shop.test_cart import TestCart
from test_shop.test_items import TestItems

from shop import Cart
from shop import Items


class TestShop(TestCart):
    @pytest.fixture()
    def factory(self):
        return partial(Cart, key="secret-key")
