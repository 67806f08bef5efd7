package integration

import (
	"fmt"
	"testing"
)

// TestLoaders reads a mount as people do: with the datasets and loaders of
// torchvision and PyTorch, two epochs, without and with worker processes. Every
// pixel, class and index must be that of the source.
func TestLoaders(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.packed, m)
		for _, workers := range []int{0, 4} {
			t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
				for _, view := range []string{"photos+png", "photos+ppm"} {
					check(t, "image_folder", args{"mount": mt.dir, "source": f.photos, "view": view, "workers": workers})
				}
				check(t, "dataset_folder", args{"mount": mt.dir, "source": f.photos, "expected": f.path("expected/photos"), "folder": "photos", "workers": workers})
				check(t, "read_image", args{"mount": mt.dir, "source": f.photos, "expected": f.path("expected/photos"), "view": "photos+png", "workers": workers})
			})
		}
	})
}

// TestLoadersByDefaultView mounts with another default view: the plain paths
// are pictures then.
func TestLoadersByDefaultView(t *testing.T) {
	f := testFixtures(t)
	mt := mount(t, f.packed, best, "--view", "png+rgb")
	check(t, "image_folder", args{"mount": mt.dir, "source": f.photos, "view": "photos", "workers": 0})
}
