// Command loopback shows a folder through go-fuse and nothing else: what FUSE and the
// library cost, to compare a mount of prismfs with. Names and attributes are remembered
// by the kernel for as long as prismfs has it by default.
//
//	loopback [-listing auto|never|always] [-cpuprofile FILE] SRC MOUNTPOINT
//
// It stays in the foreground and ends when it is unmounted.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/pprof"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"prismfs/fs"
)

func main() {
	listing := flag.String("listing", "auto", "when the kernel asks for attributes with names: auto, never or always")
	profile := flag.String("cpuprofile", "", "write a profile of the processor to this file")
	flag.Parse()
	if err := run(*listing, *profile, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "loopback:", err)
		os.Exit(1)
	}
}

func run(listing, profile string, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("two arguments are needed, SRC and MOUNTPOINT")
	}
	root, err := gofs.NewLoopbackRoot(args[0])
	if err != nil {
		return err
	}
	timeout := fs.DefaultTimeout
	options := &gofs.Options{EntryTimeout: &timeout, AttrTimeout: &timeout, NullPermissions: true}
	options.MountOptions = fuse.MountOptions{
		FsName: args[0], Name: "loopback", Options: []string{"default_permissions", "ro"},
		DirectMount: true, DirectMountFlags: unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV,
	}
	switch listing {
	case "auto":
		options.ExtraCapabilities = fuse.CAP_READDIRPLUS_AUTO
	case "never":
		options.DisableReadDirPlus = true
	case "always": // as go-fuse has it
	default:
		return fmt.Errorf("-listing %s: auto, never or always", listing)
	}
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	server, err := gofs.Mount(args[1], root, options)
	if err != nil {
		return err
	}
	server.Wait()
	return nil
}
