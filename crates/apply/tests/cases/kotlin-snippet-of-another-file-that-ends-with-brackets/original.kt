class JsonTestBase {
    fun parametrized(test: (Boolean) -> Unit) {
        streaming(test)
        tree(test)
    }
}
