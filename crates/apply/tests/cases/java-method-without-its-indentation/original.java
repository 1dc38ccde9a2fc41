package com.acme;

public class Orders {
    public int count() {
        return 1;
    }

    public int open() {
        return 0;
    }
}
