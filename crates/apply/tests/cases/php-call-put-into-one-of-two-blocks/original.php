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
            'Purse::amount() is deprecated, and will be removed in a future version. ' .
            'Use value() instead.',
            E_USER_DEPRECATED,
        );

        return $this->value;
    }
}
