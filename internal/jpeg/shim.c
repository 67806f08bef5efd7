#include "shim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* Rows asked for at once; more saves nothing. */
#define ROWS_AT_ONCE 16

struct pj_decompressor {
  struct jpeg_decompress_struct cinfo; /* client_data points back here */
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf escape;
  pj_options opt;
  pj_status status; /* set before a jump to escape */
  int quiet;        /* warnings count for nothing */
  int warnings;
  uint32_t rows;
  char message[JMSG_LENGTH_MAX];
};

static pj_decompressor *of(j_common_ptr cinfo) {
  return (pj_decompressor *)cinfo->client_data;
}

pj_status pj_classify(int code) {
  switch (code) {
  case JERR_INPUT_EOF:
  case JERR_INPUT_EMPTY:
  case JWRN_JPEG_EOF:
    return PJ_TRUNCATED;
  case JERR_SOF_UNSUPPORTED:
  case JERR_BAD_PRECISION:
  case JERR_ARITH_NOTIMPL:
  case JERR_NOT_COMPILED:
  case JERR_COMPONENT_COUNT:
  case JERR_CCIR601_NOTIMPL:
  case JERR_FRACT_SAMPLE_NOTIMPL:
  case JERR_CONVERSION_NOTIMPL:
  case JERR_IMAGE_TOO_BIG:
  case JERR_WIDTH_OVERFLOW:
  case JERR_MISMATCHED_QUANT_TABLE: /* a table that changes between scans */
    return PJ_UNSUPPORTED;
  case JERR_OUT_OF_MEMORY:
    return PJ_MEMORY;
  case JERR_NO_BACKING_STORE: /* more than max_memory_to_use is needed */
    return PJ_LIMIT;
  }
  return PJ_DAMAGED;
}

static void escape_with_message(j_common_ptr cinfo) {
  pj_decompressor *d = of(cinfo);
  d->status = pj_classify(cinfo->err->msg_code);
  cinfo->err->format_message(cinfo, d->message);
  longjmp(d->escape, 1);
}

/* Level -1 is a warning: the data is corrupt but decoding can go on. */
static void emit_message(j_common_ptr cinfo, int level) {
  pj_decompressor *d = of(cinfo);
  if (level >= 0 || d->quiet)
    return;
  if (!d->opt.tolerate_warnings)
    escape_with_message(cinfo);
  if (d->warnings++ == 0)
    cinfo->err->format_message(cinfo, d->message);
}

static void output_nothing(j_common_ptr cinfo) { (void)cinfo; }

/* Called for each row of blocks of each scan: a few bytes of file can make a
 * scan that costs as much as the whole image. */
static void check_scans(j_common_ptr cinfo) {
  pj_decompressor *d = of(cinfo);
  if (d->cinfo.input_scan_number > d->opt.max_scans) {
    d->status = PJ_LIMIT;
    snprintf(d->message, sizeof d->message, "more than %lld scans",
             (long long)d->opt.max_scans);
    longjmp(d->escape, 1);
  }
}

/* Makes a new decompressor of libjpeg's; a jump to escape means that there is
 * no memory. */
static void create(pj_decompressor *d) {
  /* Clears all of cinfo except err and client_data. */
  jpeg_create_decompress(&d->cinfo);
  d->cinfo.progress = &d->progress;
}

pj_decompressor *pj_new(void) {
  pj_decompressor *d = calloc(1, sizeof *d);
  if (d == NULL)
    return NULL;
  d->cinfo.err = jpeg_std_error(&d->errors);
  d->errors.error_exit = escape_with_message;
  d->errors.emit_message = emit_message;
  d->errors.output_message = output_nothing;
  d->progress.progress_monitor = check_scans;
  d->cinfo.client_data = d;
  if (setjmp(d->escape)) {
    jpeg_destroy_decompress(&d->cinfo);
    free(d);
    return NULL;
  }
  create(d);
  return d;
}

void pj_free(pj_decompressor *d) {
  jpeg_destroy_decompress(&d->cinfo);
  free(d);
}

/* Begins an image; comes after setjmp. libjpeg keeps quantization and Huffman
 * tables from one image to the next, so that the pixels of an image that lacks
 * some would depend on what was decoded before it: it is made anew, which costs
 * a few microseconds. */
static void begin(pj_decompressor *d, const pj_options *opt) {
  d->opt = *opt;
  d->status = PJ_OK;
  d->quiet = 0;
  d->warnings = 0;
  d->rows = 0;
  d->message[0] = 0;
  jpeg_destroy_decompress(&d->cinfo);
  create(d);
  d->cinfo.mem->max_memory_to_use = (long)opt->max_memory;
}

/* Makes d ready for another image and forgets the caller's memory. */
static pj_status end(pj_decompressor *d) {
  jpeg_abort_decompress(&d->cinfo);
  if (d->cinfo.src != NULL) {
    d->cinfo.src->next_input_byte = NULL;
    d->cinfo.src->bytes_in_buffer = 0;
  }
  return d->status;
}

pj_status pj_read_header(pj_decompressor *d, const uint8_t *data, size_t len,
                         const pj_options *opt, pj_header *header,
                         uint8_t **icc, unsigned *icc_len) {
  if (icc != NULL)
    *icc = NULL;
  if (setjmp(d->escape))
    return end(d);
  begin(d, opt);
  jpeg_mem_src(&d->cinfo, data, len);
  jpeg_save_markers(&d->cinfo, JPEG_APP0 + 2, icc != NULL ? 0xFFFF : 0);
  jpeg_read_header(&d->cinfo, TRUE);
  header->width = d->cinfo.image_width;
  header->height = d->cinfo.image_height;
  header->components = d->cinfo.num_components;
  header->color_space = d->cinfo.jpeg_color_space;
  header->progressive = d->cinfo.progressive_mode;
  header->arithmetic = d->cinfo.arith_code;
  if (icc != NULL) {
    d->quiet = 1; /* a broken profile is no fault of the pixels */
    jpeg_read_icc_profile(&d->cinfo, icc, icc_len);
  }
  return end(d);
}

/* PIL's conversion of inverted CMYK samples to RGB, in its integers. */
static void cmyk_row_to_rgb(uint8_t *dst, const uint8_t *src, size_t width) {
  for (size_t x = 0; x < width; x++, src += 4, dst += 3) {
    int light = src[3]; /* 255 - K */
    for (int c = 0; c < 3; c++) {
      int t = (255 - src[c]) * light + 128;
      dst[c] = (uint8_t)(light - ((t + (t >> 8)) >> 8));
    }
  }
}

static void read_rows(pj_decompressor *d, uint8_t *dst, size_t stride) {
  struct jpeg_decompress_struct *c = &d->cinfo;
  JSAMPROW rows[ROWS_AT_ONCE];
  while (c->output_scanline < c->output_height) {
    for (size_t i = 0; i < ROWS_AT_ONCE; i++) {
      size_t y = c->output_scanline + i;
      rows[i] = y < c->output_height ? dst + y * stride : NULL;
    }
    uint32_t left = c->output_height - c->output_scanline;
    jpeg_read_scanlines(c, rows, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE);
    d->rows = c->output_scanline;
  }
}

static void read_cmyk_rows(pj_decompressor *d, uint8_t *dst, size_t stride) {
  struct jpeg_decompress_struct *c = &d->cinfo;
  /* From the image's pool, so that it goes with it. */
  JSAMPARRAY row = c->mem->alloc_sarray((j_common_ptr)c, JPOOL_IMAGE,
                                        c->output_width * 4, 1);
  while (c->output_scanline < c->output_height) {
    size_t y = c->output_scanline;
    jpeg_read_scanlines(c, row, 1);
    cmyk_row_to_rgb(dst + y * stride, row[0], c->output_width);
    d->rows = c->output_scanline;
  }
}

pj_status pj_decode(pj_decompressor *d, const uint8_t *data, size_t len,
                    const pj_options *opt, uint8_t *dst, size_t dst_len) {
  if (setjmp(d->escape))
    return end(d);
  begin(d, opt);
  struct jpeg_decompress_struct *c = &d->cinfo;
  jpeg_mem_src(c, data, len);
  jpeg_save_markers(c, JPEG_APP0 + 2, 0);
  jpeg_read_header(c, TRUE);
  switch (c->num_components) {
  case 1:
    c->out_color_space = JCS_GRAYSCALE;
    break;
  case 3:
    c->out_color_space = JCS_RGB;
    break;
  default:
    c->out_color_space = JCS_CMYK;
  }
  size_t stride = (size_t)c->image_width * (c->num_components == 1 ? 1 : 3);
  if (c->num_components == 2 || stride * c->image_height != dst_len) {
    d->status = PJ_UNSUPPORTED;
    snprintf(d->message, sizeof d->message, "%u×%u with %d components",
             c->image_width, c->image_height, c->num_components);
    return end(d);
  }
  /* All else stays as jpeg_read_header sets it and PIL leaves it: the slow
   * integer DCT, smooth upsampling, smoothing of blocks where scans lack. */
  jpeg_start_decompress(c);
  if (c->out_color_space == JCS_CMYK)
    read_cmyk_rows(d, dst, stride);
  else
    read_rows(d, dst, stride);
  jpeg_finish_decompress(c); /* reads on to EOI, and warns if it is missing */
  return end(d);
}

const char *pj_message(const pj_decompressor *d) { return d->message; }
int pj_warnings(const pj_decompressor *d) { return d->warnings; }
uint32_t pj_rows(const pj_decompressor *d) { return d->rows; }
