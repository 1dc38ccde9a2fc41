package shop;

import shop.model.Cart;
import shop.model.Customer;
import shop.model.Item;
import shop.store.Store;

class Main {
    void run(Store store) {
        store.open();
    }
}
