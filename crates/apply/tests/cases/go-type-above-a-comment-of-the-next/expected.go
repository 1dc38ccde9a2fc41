package store

// Symlinker does both. Only file systems
// that can say so have it.
type Symlinker interface {
	Linker
	Reader
}

// Linker makes links. Only file systems
// that can say so have it.
type Linker interface {
	Link(from, to string) error
}

// Reader reads links. Only file systems
// that can say so have it.
type Reader interface {
	ReadLink(name string) (string, error)
}
