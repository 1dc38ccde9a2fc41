class Palette(val depth: Int) {
    /**
     * Create a color from its hue.
     *
     * @param h The hue, in the range [0,360]
     */
    fun hue(h: Int): Color = reduced(Hue(h))

    /**
     * Return a gray color.
     *
     * @param share The share of white in the color. 0 is black, 1 is white.
     */
    fun gray(share: Double): Color = reduced(Gray(share))

    private fun reduced(color: Color): Color = color.to(depth)
}
