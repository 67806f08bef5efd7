package fs

import (
	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// What go-fuse asks of a node it finds by type assertion, so that a method with
// a wrong signature would be passed over in silence. This file says at compile
// time what each node is meant to answer.

var _ fuse.RawFileSystem = (*kernelLayer)(nil)

var (
	_ gofs.NodeLookuper       = (*dirNode)(nil)
	_ gofs.NodeGetattrer      = (*dirNode)(nil)
	_ gofs.NodeStatfser       = (*dirNode)(nil)
	_ gofs.NodeOpendirHandler = (*dirNode)(nil)

	_ gofs.FileReleasedirer = (*listing)(nil) // the rest of it is kernelLayer.ReadDir

	_ gofs.NodeGetattrer   = (*sampleNode)(nil)
	_ gofs.NodeOpener      = (*sampleNode)(nil)
	_ gofs.NodeGetxattrer  = (*sampleNode)(nil)
	_ gofs.NodeListxattrer = (*sampleNode)(nil)
	_ gofs.FileReader      = (*sampleHandle)(nil)
	_ gofs.FileReleaser    = (*sampleHandle)(nil)

	_ gofs.NodeGetattrer   = (*plainNode)(nil)
	_ gofs.NodeOpener      = (*plainNode)(nil)
	_ gofs.NodeGetxattrer  = (*plainNode)(nil)
	_ gofs.NodeListxattrer = (*plainNode)(nil)
	_ gofs.FileReader      = (*plainHandle)(nil)
	_ gofs.FileReleaser    = (*plainHandle)(nil)

	_ gofs.NodeGetattrer      = (*streamFolder)(nil)
	_ gofs.NodeLookuper       = (*streamFolder)(nil)
	_ gofs.NodeOpendirHandler = (*streamFolder)(nil)
	_ gofs.NodeGetattrer      = (*epochFolder)(nil)
	_ gofs.NodeLookuper       = (*epochFolder)(nil)
	_ gofs.NodeOpendirHandler = (*epochFolder)(nil)
	_ gofs.FileReaddirenter   = (*numberedListing)(nil)
	_ gofs.FileSeekdirer      = (*numberedListing)(nil)
	_ gofs.NodeGetattrer      = (*shardNode)(nil)
	_ gofs.NodeOpener         = (*shardNode)(nil)
	_ gofs.FileReader         = (*shardHandle)(nil)
	_ gofs.FileReleaser       = (*shardHandle)(nil)
	_ gofs.NodeGetattrer      = (*tableNode)(nil)
	_ gofs.NodeOpener         = (*tableNode)(nil)
	_ gofs.FileReader         = (*tableHandle)(nil)

	_ gofs.NodeLookuper  = (*controlDir)(nil)
	_ gofs.NodeGetattrer = (*controlDir)(nil)
	_ gofs.NodeReaddirer = (*controlDir)(nil)
	_ gofs.NodeGetattrer = (*controlFile)(nil)
	_ gofs.NodeOpener    = (*controlFile)(nil)
	_ gofs.FileReader    = (*controlHandle)(nil)
)
