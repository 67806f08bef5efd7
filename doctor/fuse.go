package doctor

import (
	iofs "io/fs"
	"strings"
)

// checkFuse tells whether anything can be mounted by mount, and whether by run.
func (m machine) checkFuse(r *Report, who privilege) (byMount, byRun bool) {
	can := true
	if remedy, err := m.fuse(); err != nil {
		can = false
		r.add("fuse", Bad, remedy, "%v", err)
	} else {
		r.add("fuse", OK, "", "/dev/fuse can be opened")
	}
	byMount = m.checkFusermount(r, who) && can
	m.checkAllowOther(r)
	byRun = m.checkRun(r, who) && can
	return byMount, byRun
}

// checkFusermount looks for the program that mounts for users who may not do it by
// themselves.
func (m machine) checkFusermount(r *Report, who privilege) bool {
	const name, install = "fusermount3", "install fuse3, or mount as root"
	path, err := m.program(name)
	switch {
	case who.admin && err != nil:
		r.add(name, OK, "", "not installed, and not needed: this user may mount")
		return true
	case who.admin:
		r.add(name, OK, "", "%s, which is not needed: this user may mount", path)
		return true
	case who.out != "":
		r.add(name, Bad, "in a container, --cap-add SYS_ADMIN, and no no-new-privileges", "it could not mount: %s", who.out)
		return false
	case err != nil:
		r.add(name, Bad, install, "not installed; users who may not mount need it")
		return false
	}
	mode, err := m.mode(path)
	switch {
	case err != nil:
		r.add(name, Bad, install, "%v", err)
		return false
	case mode&iofs.ModeSetuid == 0:
		// Some systems give it a capability instead: it may do.
		r.add(name, Less, "root can allow it with chmod u+s "+path, "%s is not set-user-ID root, and may not be able to mount", path)
		return true
	}
	r.add(name, OK, "", "%s", path)
	return true
}

// checkAllowOther looks whether --allow-other may be given.
func (m machine) checkAllowOther(r *Report) {
	const name = "allow-other"
	if m.user == 0 {
		r.add(name, OK, "", "root may give --allow-other")
		return
	}
	text, err := iofs.ReadFile(m.files, "etc/fuse.conf")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) == "user_allow_other" {
				r.add(name, OK, "", "user_allow_other is set: --allow-other may be given")
				return
			}
		}
	}
	r.add(name, Less, "uncomment user_allow_other in /etc/fuse.conf", "users may not give --allow-other: other users would not see the mount")
}
