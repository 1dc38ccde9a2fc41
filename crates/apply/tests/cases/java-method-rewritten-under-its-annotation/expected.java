class Shelf {
    private final List<Book> books = new ArrayList<>();

    /** Adds a book. */
    @Override
    public boolean add(Book book) {
        Objects.requireNonNull(book);
        return index.putIfAbsent(book.id(), book) == null;
    }

    public int size() {
        return books.size();
    }
}
