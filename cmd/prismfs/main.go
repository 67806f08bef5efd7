// Command prismfs packs image datasets compactly, and mounts them so that
// every program reads them decoded.
//
// There is one file for each subcommand, and each holds flags and printing
// only: the work is done by the packages pack and fs. exit_status.go names
// every exit status.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(int(run()))
}

// run executes the command line under a context that the first SIGINT or
// SIGTERM ends. A second one kills the process at once, since by then the
// handler has been taken away.
func run() exitStatus {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if !isMountHelper(os.Args[0]) {
		return execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	line, fake, err := helperArguments(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return statusOf(err)
	}
	if fake {
		return statusOK
	}
	return execute(ctx, line, os.Stdin, os.Stdout, os.Stderr)
}
