package tensor

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"prismfs/raster"
)

// goldenImage is an image whose samples follow from their place alone: byte i
// is 7·i + i/256. NumPy makes the same by
//
//	i = np.arange(H*W*C*size); ((7*i + i//256) % 256).astype(np.uint8).view(dtype).reshape(H, W, C)
func goldenImage(s raster.Shape) raster.Image {
	pix := make([]byte, s.Bytes())
	for i := range pix {
		pix[i] = byte(7*i + i/256)
	}
	return raster.Image{Shape: s, Pix: pix}
}

// golden holds the SHA-256 of files that must never change: readers may have
// kept them, and the rules say that the bytes of a virtual file depend on its
// sample and form alone. Those of npy are numpy.save's own, of NumPy 1.24.2.
var golden = []struct {
	form   Form
	shape  raster.Shape
	sha256 string
}{
	{Form{}, raster.Shape{Height: 512, Width: 768, Channels: 3, DType: raster.Uint8, Color: raster.RGB}, "2fbcfe2f94e6fefaa03dca3b90b61aad27b00148bb301b892cfe904300557f63"},
	{Form{CHW: true}, raster.Shape{Height: 512, Width: 768, Channels: 3, DType: raster.Uint8, Color: raster.RGB}, "d3f38d5a1ed372d249da36d9953ab951ae395230faaac7d99e095a06a24e9c14"},
	{Form{}, raster.Shape{Height: 480, Width: 640, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, "8ceac451de991307739f18d88b2d12585c63b5ec9324c6180b1f7e321d5a21b2"},
	{Form{CHW: true}, raster.Shape{Height: 480, Width: 640, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, "2d2536b7488ef81584877dd91b2b7aeca26ca66a382ff1b5b86ba99abb1c6c34"},
	{Form{}, raster.Shape{Height: 1, Width: 1, Channels: 4, DType: raster.Uint8, Color: raster.RGBA}, "14bdd3921fcc5087cdcd623323578461d19be522385c7277d59269149bd16bf5"},
	{Form{CHW: true}, raster.Shape{Height: 1, Width: 1, Channels: 4, DType: raster.Uint8, Color: raster.RGBA}, "9de9865ec867b656a927cc40c72a871bd862df51ea220e81427592791f480906"},
	{Form{}, raster.Shape{Height: 37, Width: 53, Channels: 2, DType: raster.Uint16, Color: raster.GreyAlpha}, "b611f628111c357a8a1914cbb8e5c8c0150a3f2f7d5580d30391d4cddab4cf02"},
	{Form{CHW: true}, raster.Shape{Height: 37, Width: 53, Channels: 2, DType: raster.Uint16, Color: raster.GreyAlpha}, "382c0a075619821cff68ef656ad82e1db00425f46aa8f14cf11c0104fc0d3a69"},
	{Form{}, raster.Shape{Height: 64, Width: 48, Channels: 1, DType: raster.Int16, Color: raster.Grey}, "b37a9bf31aca9d14f4afdcda24f7735afb2d8fdf50b46a31bcfe9598d7ce4b9c"},
	{Form{CHW: true}, raster.Shape{Height: 64, Width: 48, Channels: 1, DType: raster.Int16, Color: raster.Grey}, "74c53e2bea642f5ded78ddf0904a8eb636ca7b5ca988472c5bfe4532573048cb"},
	{Form{}, raster.Shape{Height: 5, Width: 1031, Channels: 3, DType: raster.Uint16, Color: raster.RGB}, "791501decbf11ed28f061283d531610d8272c35c7e49c5854f522bc2db9ddf96"},
	{Form{CHW: true}, raster.Shape{Height: 5, Width: 1031, Channels: 3, DType: raster.Uint16, Color: raster.RGB}, "deea1c9afe75e45769ccd80c9383d6d326c2c0e0e36163061cae008ba14eba63"},
	{Form{Container: PNG}, raster.Shape{Height: 512, Width: 768, Channels: 3, DType: raster.Uint8, Color: raster.RGB}, "b0165b84c4014f13134afcec47c828051d9501c921465ce4b621e19906ad1de0"},
	{Form{Container: PNG}, raster.Shape{Height: 480, Width: 640, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, "a787f010e8f39958fd61e329e26b3202f09355b0a74115078cf28b74c0d9d565"},
	{Form{Container: PNG}, raster.Shape{Height: 1, Width: 1, Channels: 4, DType: raster.Uint8, Color: raster.RGBA}, "ba6a6bd7ddb573b96a96bd9efa4125aaa0a49ed6b541bb37ac482f06b66fdd51"},
	{Form{Container: PNG}, raster.Shape{Height: 37, Width: 53, Channels: 2, DType: raster.Uint16, Color: raster.GreyAlpha}, "6eeda4522bbfc22c8d7191c42a8e150944982bfc268db0db204168e7a0b3222c"},
	{Form{Container: PNG}, raster.Shape{Height: 1200, Width: 900, Channels: 3, DType: raster.Uint16, Color: raster.RGB}, "0ffcf128c780aa7d2392e6f0856717d7cef571c1af1b85e4407d33a4e22fb37d"},
	{Form{Container: PNG, RGB: true}, raster.Shape{Height: 480, Width: 640, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, "f24a616571240d6cf531c057dbbcec3c7ddedef89de416a9ab720179b62aef2e"},
	{Form{Container: PNG, RGB: true}, raster.Shape{Height: 37, Width: 53, Channels: 2, DType: raster.Uint16, Color: raster.GreyAlpha}, "60a3d2771f759a5d66cc1eac04c38ac9776e9972a2e72949d57b3d2ffefb75d1"},
	{Form{Container: PPM}, raster.Shape{Height: 512, Width: 768, Channels: 3, DType: raster.Uint8, Color: raster.RGB}, "134202e2a52500be485d61b1ff6cd17b6acf078ae4b3fcfd2b57d875c1b8a5bf"},
	{Form{Container: PPM}, raster.Shape{Height: 480, Width: 640, Channels: 1, DType: raster.Uint8, Color: raster.Grey}, "b712b28de57d99d6482ad75b96405a6074ada1b2b247d7c2641ebe088888cafb"},
	{Form{Container: PPM}, raster.Shape{Height: 37, Width: 53, Channels: 4, DType: raster.Uint8, Color: raster.RGBA}, "614f5b55331e647b4c397dace141ea1752400218d7ea532b63939daccaf488e4"},
	{Form{Container: PPM, Wide: true}, raster.Shape{Height: 64, Width: 48, Channels: 1, DType: raster.Uint16, Color: raster.Grey}, "a2f944f3416473c93d8f9e45bb9123b9a8daefcff26d5601a1965a31bf6cc4a3"},
	{Form{Container: PPM, Wide: true}, raster.Shape{Height: 37, Width: 53, Channels: 4, DType: raster.Uint16, Color: raster.RGBA}, "652e956648a0911ee3af116832eac8cbdad508ab53b50721423e2803c4fbb502"},
	{Form{Container: Raw}, raster.Shape{Height: 64, Width: 48, Channels: 1, DType: raster.Int16, Color: raster.Grey}, "3e8cac7e90f5dc4fce0fd5403384bccbdd290abcd2ae706529e4f918986b6afb"},
	{Form{Container: Raw, RGB: true, CHW: true}, raster.Shape{Height: 37, Width: 53, Channels: 4, DType: raster.Uint16, Color: raster.RGBA}, "30d59089091f28395773d49628b04a4198c386d5b533a53cec04da1e575f31cc"},
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		file, err := render(g.form, goldenImage(g.shape))
		if err != nil {
			t.Errorf("%v of %v: %v", g.form, g.shape, err)
			continue
		}
		sum := sha256.Sum256(file)
		got := hex.EncodeToString(sum[:])
		if got != g.sha256 {
			t.Errorf("%v of %v: %s, want %s", g.form, g.shape, got, g.sha256)
		}
	}
}
