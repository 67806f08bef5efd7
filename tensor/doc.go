// Package tensor gives decoded images the form of files: NumPy arrays, PNG,
// Netpbm and bare samples.
//
// A [Form] says which file a reader asked for; [Form.Layout] fits it to the
// shape of one image. The size of the file follows from the shape alone, so
// that a directory can be listed, and a file be given its exact size, before
// anything is decoded. [Layout.Render] then writes the file from the samples.
//
// What it promises: the bytes of a file depend on form, shape and samples
// alone; .npy files equal those of numpy.save byte for byte; every form but
// the ones that say so (rgb, ppm) keeps each sample as it is; a form that
// cannot do what it says of an image refuses it ([ErrCannotHold]) rather than
// clip, guess or drop. Nothing is allocated by Render.
//
// It knows nothing of files, caches or codecs: it turns bytes into bytes.
//
// # What the forms hold
//
// The meaning of channels decides where a form must know which is alpha:
//
//	form          uint8           uint16           int16   Other, 2 or 4 channels
//	npy, raw      as it is        as it is         as it is  as it is
//	png, orig     8 bits          16 bits, BE      no        as grey+alpha, RGBA
//	ppm           8 bits          no               no        no
//	ppm+16        8 bits          16 bits, BE      no        no
//	…+rgb         as it is        its high byte    no        no
//
// PNG takes arrays of two and four channels without a meaning, because a
// reader gets every sample back; ppm and rgb would have to drop one. Other
// arrays of one and three channels are grey and RGB everywhere. The term 16
// permits samples of 16 bits and leaves those of 8 bits alone (maxval 255), so
// that a tree that mixes both can be read with one view.
package tensor
