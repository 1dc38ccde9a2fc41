class Shelf {
    private final List<Book> books = new ArrayList<>();

    /** Adds a book. */
    @Override
    public boolean add(Book book) {
        if (books.contains(book)) {
            return false;
        }
        books.add(book);
        return true;
    }

    public int size() {
        return books.size();
    }
}
