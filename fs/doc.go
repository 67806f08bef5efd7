// Package fs is the file system: nodes, handles, backing ids, views and the
// mount itself.
//
// # What the kernel is told
//
// A mount is read-only, so nearly everything can be left to the kernel.
// Lookups carry attributes and long timeouts; sizes are exact, since they
// follow from an image's shape; nothing is decoded by stat or by listing.
//
// An open of a decoded file pins its buffer in the cache and answers with the
// buffer's backing id: from then on reads and maps are served by the kernel
// from the buffer's file (FUSE passthrough), and we hear of the file again at
// its release. Where passthrough is not allowed, reads come to us and the
// kernel keeps the pages.
//
// # One node, one content
//
// A node stands for a path as it was written and for one content. When the
// source file is replaced, or another fidelity set for an auto view, the next
// lookup makes a node with the same inode number and another generation; the
// kernel remembers no names of auto views, so that every open begins with a
// lookup. So an old handle or map keeps the old bytes, a new open gets the new
// ones, sizes belong to their bytes, and pages that the kernel keeps are right
// for as long as their inode lives. Echo views are such views, too: a lookup settles
// which sample the next open of a name gets (echo_views.go). A stale name is answered with ESTALE, on
// which the kernel looks it up again.
//
// # One inode, one way
//
// The kernel refuses (EIO) an inode that is open in two ways, by passthrough
// and through the page cache, or on two backing files. A node therefore pins
// one buffer from its first open to its last release, and the buffer decides
// the way: it is registered with the kernel once, when it is published, or not
// at all.
//
// # Names
//
// See resolve.go for what a name leads to and view.go for the grammar of
// views. Inode numbers are hashes of paths (inode_number.go).
//
// # What is set at run time
//
// The fidelities of auto views (fidelities.go), by way of a Unix socket
// (control_socket.go, and control_client.go for the command). A lookup takes the
// setting of its moment, and the node keeps it.
//
// # What it does not know
//
// The package knows neither codecs nor devices: datasets say what there is,
// package tensor how large a form is and how it is written, gpudecode decodes.
// Nothing here may touch the own mount point: a request that waits for itself
// never ends.
package fs
