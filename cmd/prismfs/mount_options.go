package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// optionList is the flag -o. An option that has the name of another flag sets
// that, so that a line of fstab can say all that a command line can.
type optionList struct {
	flags  *pflag.FlagSet
	sloppy bool     // unknown options are passed over
	kernel []string // what the kernel is told
}

// passedOver are the options that change nothing here: what only mount(8) and
// systemd read, what every mount of ours is, and what speaks of writing.
var passedOver = map[string]bool{
	"": true, "auto": true, "noauto": true, "user": true, "users": true, "owner": true, "group": true,
	"nouser": true, "nousers": true, "noowner": true, "nogroup": true,
	"_netdev": true, "nofail": true, "defaults": true, "default_permissions": true, "ro": true, "rw": true,
	"sync": true, "async": true, "dirsync": true,
	"symfollow": true, "nosymfollow": true, // no mount of ours has links
	"atime": true, "noatime": true, "diratime": true, "nodiratime": true,
	"relatime": true, "norelatime": true, "strictatime": true, "nostrictatime": true, "lazytime": true, "nolazytime": true,
	"iversion": true, "noiversion": true, "mand": true, "nomand": true, "silent": true, "loud": true,
	"comment": true, "uhelper": true, "helper": true, "pgrp": true,
}

// kernelOptions are those that the kernel has for FUSE, or that mount(2) has
// flags for.
var kernelOptions = map[string]bool{
	"dev": true, "nodev": true, "suid": true, "nosuid": true, "exec": true, "noexec": true, "blksize": true,
	"context": true, "fscontext": true, "defcontext": true, "rootcontext": true, // of SELinux
}

// notOptions are the flags that make no sense in a list of options.
var notOptions = map[string]bool{"options": true, "help": true}

func (l *optionList) Set(text string) error {
	for option := range strings.SplitSeq(text, ",") {
		if err := l.take(option); err != nil {
			return err
		}
	}
	return nil
}

func (l *optionList) take(option string) error {
	key, value, hasValue := strings.Cut(option, "=")
	if key == "" && hasValue {
		return fmt.Errorf("%q is a value without the name of an option", option)
	}
	if passedOver[key] || strings.HasPrefix(key, "x-") || strings.HasPrefix(key, "X-") {
		return nil
	}
	switch {
	case key == "remount":
		return errors.New("remount: prismfs cannot change a mount; unmount it and mount again, or, for what the kernel alone decides (ro, exec, nosymfollow), use mount -i -o remount,…")
	case kernelOptions[key]:
		l.kernel = append(l.kernel, option)
		return nil
	}
	name := strings.ReplaceAll(key, "_", "-") // allow_other
	if name == "foreground" {
		return errors.New("foreground is no mount option, for mount(8) waits until the command returns: use prismfs mount --foreground")
	}
	flag := l.flags.Lookup(name)
	switch {
	case flag == nil || notOptions[name]:
		if l.sloppy {
			return nil
		}
		return fmt.Errorf("%q is no mount option of the kernel, of mount(8) or of prismfs", key)
	case !hasValue && flag.NoOptDefVal == "":
		return fmt.Errorf("%q needs a value: %s=%s", key, key, strings.ToUpper(flag.Value.Type()))
	case !hasValue:
		value = flag.NoOptDefVal
	}
	if err := l.flags.Set(name, value); err != nil {
		return fmt.Errorf("%s: %w", key, flagError(err))
	}
	return nil
}

func (l *optionList) String() string { return strings.Join(l.kernel, ",") }

func (l *optionList) Type() string { return "options" }
