/* Empty: some grammars compile these for the libraries of old versions; tree-sitter 0.27 brings its own. */
