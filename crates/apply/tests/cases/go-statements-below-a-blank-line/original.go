package cmd

func (c *Command) complete(args []string) error {
	last := args[len(args)-1]
	trimmed := args[:len(args)-1]

	// Find the command to complete.
	final, rest, err := c.Root().Find(trimmed)
	if err != nil {
		return err
	}
	return final.run(rest, last)
}
