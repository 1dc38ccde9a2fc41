<?php

namespace Shop;

class Cart
{
    private $items = [];

    public function add(Item $item)
    {
        $this->items[] = $item;
    }

    public function total(string $currency)
    {
        $sum = 0;
        foreach ($this->items as $item) {
            $sum += $item->price * $item->count;
        }

        return $this->convert($sum, $currency);
    }
}
