package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// mount(8) runs /sbin/mount.TYPE for types that the kernel does not know, with
// arguments of its own:
//
//	mount.prismfs SRC MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]
//
// A link of that name to the binary is all that is needed.

// isMountHelper reports whether mount(8) has run us, by the name it used.
func isMountHelper(name string) bool {
	base := filepath.Base(name)
	return base == "mount.prismfs" || base == "mount.fuse.prismfs"
}

// helperArguments translates what mount(8) passes into a command line. fake asks
// for nothing to be mounted.
func helperArguments(args []string) (line []string, fake bool, err error) {
	var places []string
	line = []string{"mount"}
	sloppy := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			places = append(places, arg)
			continue
		}
		switch arg {
		case "-h", "--help":
			return []string{"mount", "--help"}, false, nil
		case "-V", "--version":
			return []string{"version"}, false, nil
		case "--sloppy":
			arg = "-s"
		}
		if strings.HasPrefix(arg, "--") {
			return nil, false, usageError("mount.prismfs: there is no option %s; flags of 'prismfs mount' stand after -o, as in -o view=png,cache=4GiB", arg)
		}
		for j := 1; j < len(arg); j++ {
			switch letter := arg[j]; letter {
			case 'n', 'v': // no mtab is kept, and there is nothing more to say
			case 'f':
				fake = true
			case 's':
				sloppy = true
			case 'o', 't', 'N':
				value := arg[j+1:]
				if value == "" {
					if i++; i == len(args) {
						return nil, false, usageError("mount.prismfs: -%c needs a value", letter)
					}
					value = args[i]
				}
				switch letter {
				case 'o':
					line = append(line, "-o", value)
				case 'N':
					return nil, false, usageError("mount.prismfs: -N %s: mounting in another namespace is not possible; run it there by nsenter", value)
				}
				j = len(arg)
			default:
				return nil, false, usageError("mount.prismfs: mount(8) has no option -%c for helpers; there are -s, -f, -n, -v and -o OPTIONS", letter)
			}
		}
	}
	if len(places) != 2 {
		return nil, false, usageError("mount.prismfs: mount(8) names a source and a mount point, not %q", places)
	}
	if sloppy { // before the options that it is about
		line = slices.Insert(line, 1, "--sloppy")
	}
	return append(line, "--", places[0], places[1]), fake, nil
}
