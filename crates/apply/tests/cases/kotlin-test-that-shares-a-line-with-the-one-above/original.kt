class ParametersTest {

    @Test
    fun `can create a single`() {
        val app = koinApplication {
            modules(module { single { p -> Twin(p[0], p[1]) } })
        }

        assertEquals(42, app.koin.get().first)
    }

    @Test
    fun `can use a named one`() {
        checkNamed()
    }
}
