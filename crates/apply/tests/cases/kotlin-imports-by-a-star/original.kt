package shop

import shop.time.Duration
import shop.time.Moment
import shop.time.seconds

sealed class Unit {

    abstract fun times(scalar: Int): Unit
}
