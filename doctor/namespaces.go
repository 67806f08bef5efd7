package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"prismfs/namespace"
)

// checkRun tells whether prismfs run can have a mount that nobody else sees, which
// users who may not mount can have by a user namespace.
func (m machine) checkRun(r *Report, who privilege) bool {
	const name = "run"
	reason, remedy := namespace.Forbidden(m.files)
	switch {
	case who.admin && reason != "":
		r.add(name, OK, "for other users: "+remedy, "prismfs run needs no user namespace for this user, who may mount; others cannot have one: %s", reason)
		return true
	case who.admin:
		r.add(name, OK, "", "prismfs run needs no user namespace: this user may mount")
		return true
	}
	err := m.userNamespace()
	if errors.Is(err, exec.ErrNotFound) && reason == "" {
		r.add(name, OK, "", "nothing that is known here forbids user namespaces, by which prismfs run mounts")
		return true
	}
	if err == nil {
		r.add(name, OK, "", "a user namespace can be made: prismfs run mounts in one, and needs no fusermount3")
		return true
	}
	if reason == "" {
		reason, remedy = namespace.WhyNot(err)
	}
	r.add(name, Less, cmp.Or(remedy, "mount outside, and bind the mount into here"), "prismfs run makes an ordinary mount, which others see: %s", reason)
	return false
}

// tryUserNamespace makes the namespaces that prismfs run makes, and mounts as it
// does there, for a program that ends at once.
func tryUserNamespace() error {
	out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EUSERS, syscall.EINVAL, syscall.EACCES, syscall.EPERM} {
		if strings.Contains(strings.ToLower(string(out)), errno.Error()) {
			return errno
		}
	}
	return fmt.Errorf("%s", strings.TrimSpace(string(out)))
}
