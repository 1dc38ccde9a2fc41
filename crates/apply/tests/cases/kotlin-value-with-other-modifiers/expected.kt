public actual class Offset(public actual val seconds: Int) {

    override fun toString(): String = format(seconds)

    public actual companion object {

        public actual val ZERO: Offset = Offset(0)

        public actual fun parse(text: String): Offset {
            return Offset(text.toInt())
        }
    }
}
