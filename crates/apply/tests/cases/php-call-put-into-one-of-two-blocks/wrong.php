<?php

final class Purse
{
    public static function total(Coin $coin): Coin
    {
        $total = $coin;

        return $total;
    }

    public function amount(): int
    {
        trigger_error(
            'Purse::total() is deprecated, and will be removed in a future version. Use Purse::sum() instead.',
            E_USER_DEPRECATED,
        );

        return $this->value;
    }
}
