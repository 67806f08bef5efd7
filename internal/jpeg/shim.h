/* A narrow face of jpeglib for cgo. Every function that can fail returns a
 * pj_status; libjpeg's way of failing (error_exit, which must not return) ends
 * at a setjmp inside the function and never crosses into Go. No pointer to the
 * caller's memory is kept after a function has returned. */

#ifndef PRISMFS_JPEG_SHIM_H
#define PRISMFS_JPEG_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  PJ_OK = 0,
  PJ_DAMAGED,     /* an error of the data, or a warning that is not tolerated */
  PJ_TRUNCATED,   /* the data ends before EOI */
  PJ_UNSUPPORTED, /* a kind of JPEG that libjpeg does not decode */
  PJ_LIMIT,       /* over the scan or memory limit given by the caller */
  PJ_MEMORY       /* malloc failed */
} pj_status;

/* A reusable decompressor; one thread at a time. */
typedef struct pj_decompressor pj_decompressor;

typedef struct {
  uint32_t width, height; /* pixels */
  int components;
  int color_space; /* J_COLOR_SPACE of the stored components */
  int progressive;
  int arithmetic;
} pj_header;

typedef struct {
  int64_t max_memory; /* bytes that libjpeg may allocate */
  int64_t max_scans;
  int tolerate_warnings;
} pj_options;

pj_decompressor *pj_new(void); /* NULL: no memory */
void pj_free(pj_decompressor *d);

/* Reads up to the first SOS. If icc is not NULL, *icc becomes a malloc'ed
 * copy of the ICC profile of *icc_len bytes, or NULL where there is none that
 * is whole. */
pj_status pj_read_header(pj_decompressor *d, const uint8_t *data, size_t len,
                         const pj_options *opt, pj_header *header,
                         uint8_t **icc, unsigned *icc_len);

/* Decodes up to the first EOI into dst: 1 sample a pixel for one component,
 * else RGB; four components are converted as PIL converts CMYK, which takes
 * them for inverted. dst_len must be the exact size; the size of the image
 * must be what pj_read_header said. */
pj_status pj_decode(pj_decompressor *d, const uint8_t *data, size_t len,
                    const pj_options *opt, uint8_t *dst, size_t dst_len);

/* Of the last call: the text of the error or, after PJ_OK, of the first
 * warning; the number of warnings; the rows that had been written. */
const char *pj_message(const pj_decompressor *d);
int pj_warnings(const pj_decompressor *d);
uint32_t pj_rows(const pj_decompressor *d);

/* What a libjpeg error or warning of this number says of the data. */
pj_status pj_classify(int code);

#endif
