/* Writing JPEGs with jpeglib, in the manner of shim.h: errors end inside the
 * functions, and no pointer to the caller's memory is kept. */

#ifndef PRISMFS_JPEG_RECODE_H
#define PRISMFS_JPEG_RECODE_H

#include "shim.h"

#define PJ_MESSAGE_MAX 256

typedef struct {
  uint8_t *data; /* malloc'ed; NULL after an error */
  size_t len;
  int incomplete; /* see pj_transcode */
  char message[PJ_MESSAGE_MAX];
} pj_written;

/* Writes the coefficients of a JPEG as a progressive, Huffman-coded one, with
 * the scans of jpegtran -progressive. Kept are JFIF and Adobe markers, ICC
 * profiles and, where keep_exif says so, EXIF. Any warning is an error.
 * A progressive JPEG whose scans do not end all coefficients gives nothing but
 * incomplete = 1: decoders smooth such an image, and would not smooth one that
 * says that the missing bits are zero. */
pj_status pj_transcode(const uint8_t *data, size_t len, const pj_options *opt,
                       int keep_exif, pj_written *out);

/* Encodes 8-bit samples, 1 (grey) or 3 (RGB) a pixel, rows without padding, as
 * a progressive JPEG with libjpeg's defaults: colour is YCbCr 4:2:0. */
pj_status pj_encode(const uint8_t *pix, uint32_t width, uint32_t height,
                    int channels, int quality, const uint8_t *icc,
                    unsigned icc_len, const pj_options *opt, pj_written *out);

#endif
