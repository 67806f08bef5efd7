package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// usedArguments checks the arguments of a command against its line of use, and names
// those that are missing or too many.
func usedArguments(cmd *cobra.Command, args []string) error {
	needed, most := argumentsOf(cmd.Use)
	switch {
	case len(args) < len(needed):
		missing := needed[len(args):]
		verb := "is"
		if len(missing) > 1 {
			verb = "are"
		}
		return usageError("%s: %s %s missing: %s", cmd.Name(), strings.Join(missing, " and "), verb, usageOf(cmd))
	case most >= 0 && len(args) > most:
		verb := "is"
		if len(args) > most+1 {
			verb = "are"
		}
		return usageError("%s: %q %s too much: %s", cmd.Name(), args[most:], verb, usageOf(cmd))
	}
	return nil
}

// usageOf is the line of use with the commands before it.
func usageOf(cmd *cobra.Command) string {
	return strings.TrimSpace(cmd.Parent().CommandPath() + " " + cmd.Use)
}

// argumentsOf returns the names of the arguments that a line of use says are needed,
// and how many it has room for, -1 for any number. Words are flags where they begin
// with a hyphen, with one for the value behind them.
func argumentsOf(use string) (needed []string, most int) {
	words := strings.Fields(use)[1:]
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") {
			i++
			continue
		}
		most++
		if strings.HasPrefix(word, "[") {
			continue
		}
		name, repeated := strings.CutSuffix(word, "...")
		needed = append(needed, name)
		if repeated {
			return needed, -1
		}
	}
	return needed, most
}
