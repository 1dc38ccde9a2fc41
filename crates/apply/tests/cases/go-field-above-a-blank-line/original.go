package kong

// Tag represents the parsed state of struct tags in a field.
type Tag struct {
	Ignored     bool
	Cmd         bool
	Prefix      string
	Embed       bool
	Aliases     []string

	// Storage for all tag keys for arbitrary lookups.
	items map[string][]string
}

type tagChars struct {
	sep, quote, assign rune
}
