// Package plural writes numbers of things for people: 1 record, 2 records.
package plural

import (
	"fmt"

	"github.com/dustin/go-humanize/english"
)

// Of writes a number and what there is of it, given as the singular. Numbers are
// not grouped, so that programs can read them.
func Of[N ~int | ~int32 | ~int64 | ~uint64](n N, singular string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", n, english.PluralWord(2, singular, ""))
}

// Or returns the word for one thing, or that for any other number of them: is, are.
func Or[N ~int | ~int32 | ~int64 | ~uint64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
