#include "recode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* The first size of the output; it doubles as needed. */
#define FIRST_BYTES 65536

/* One image's state. All of it is reached through client_data, so that nothing
 * lives in local variables when an error jumps out. */
typedef struct {
  struct jpeg_decompress_struct in;
  struct jpeg_compress_struct out;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  /* A destination of our own: that of jpeg_mem_dest loses its buffer when an
   * error ends the writing. */
  struct jpeg_destination_mgr destination;
  uint8_t *buffer;
  size_t size; /* of the buffer */
  jmp_buf escape;
  const pj_options *opt;
  pj_status status;
  char *message;
} recoder;

static recoder *of(j_common_ptr cinfo) { return (recoder *)cinfo->client_data; }

static void fail(j_common_ptr cinfo) {
  recoder *r = of(cinfo);
  char text[JMSG_LENGTH_MAX];
  r->status = pj_classify(cinfo->err->msg_code);
  cinfo->err->format_message(cinfo, text);
  snprintf(r->message, PJ_MESSAGE_MAX, "%s", text);
  longjmp(r->escape, 1);
}

static void fail_on_warning(j_common_ptr cinfo, int level) {
  if (level < 0)
    fail(cinfo);
}

static void output_nothing(j_common_ptr cinfo) { (void)cinfo; }

static void check_scans(j_common_ptr cinfo) {
  recoder *r = of(cinfo);
  if (!cinfo->is_decompressor ||
      r->in.input_scan_number <= r->opt->max_scans)
    return;
  r->status = PJ_LIMIT;
  snprintf(r->message, PJ_MESSAGE_MAX, "more than %lld scans",
           (long long)r->opt->max_scans);
  longjmp(r->escape, 1);
}

static void begin_output(j_compress_ptr c) {
  recoder *r = of((j_common_ptr)c);
  r->size = FIRST_BYTES;
  r->buffer = malloc(r->size);
  if (r->buffer == NULL)
    ERREXIT1(c, JERR_OUT_OF_MEMORY, 0);
  r->destination.next_output_byte = r->buffer;
  r->destination.free_in_buffer = r->size;
}

/* Called when the buffer is full. */
static boolean grow_output(j_compress_ptr c) {
  recoder *r = of((j_common_ptr)c);
  uint8_t *larger = NULL;
  if (r->size <= (size_t)r->opt->max_memory / 2)
    larger = realloc(r->buffer, 2 * r->size);
  if (larger == NULL)
    ERREXIT1(c, JERR_OUT_OF_MEMORY, 0);
  r->buffer = larger;
  r->destination.next_output_byte = r->buffer + r->size;
  r->destination.free_in_buffer = r->size;
  r->size *= 2;
  return TRUE;
}

static void end_output(j_compress_ptr c) { (void)c; }

/* Returns NULL without memory; setjmp comes after it. */
static recoder *new_recoder(const pj_options *opt, pj_written *out) {
  memset(out, 0, sizeof *out);
  recoder *r = calloc(1, sizeof *r);
  if (r == NULL)
    return NULL;
  r->opt = opt;
  r->message = out->message;
  jpeg_std_error(&r->errors);
  r->errors.error_exit = fail;
  r->errors.emit_message = fail_on_warning;
  r->errors.output_message = output_nothing;
  r->progress.progress_monitor = check_scans;
  r->destination.init_destination = begin_output;
  r->destination.empty_output_buffer = grow_output;
  r->destination.term_destination = end_output;
  r->in.err = r->out.err = &r->errors;
  r->in.client_data = r->out.client_data = r;
  return r;
}

/* Frees everything but what was written. Destroying what was never created is
 * allowed: its memory manager is NULL. */
static pj_status finish(recoder *r, pj_written *out) {
  pj_status status = r->status;
  if (status == PJ_OK && r->buffer != NULL) {
    out->data = r->buffer;
    out->len = r->size - r->destination.free_in_buffer;
  } else {
    free(r->buffer);
  }
  jpeg_destroy_decompress(&r->in);
  jpeg_destroy_compress(&r->out);
  free(r);
  return status;
}

static void create_output(recoder *r) {
  jpeg_create_compress(&r->out); /* keeps err and client_data */
  r->out.mem->max_memory_to_use = (long)r->opt->max_memory;
  r->out.dest = &r->destination;
}

/* Whether scans are missing that a progressive JPEG should have. */
static int is_incomplete(const struct jpeg_decompress_struct *in) {
  if (!in->progressive_mode || in->coef_bits == NULL)
    return 0;
  for (int c = 0; c < in->num_components; c++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (in->coef_bits[c][k] != 0)
        return 1;
  return 0;
}

/* Whether a scan is one that the format does not allow: several components
 * with too many blocks in an MCU. Sources whose components stand in scans of
 * their own may have such sampling factors. */
static int is_too_wide(const j_compress_ptr out, const jpeg_scan_info *scan) {
  int blocks = 0;
  if (scan->comps_in_scan == 1)
    return 0;
  for (int i = 0; i < scan->comps_in_scan; i++) {
    const jpeg_component_info *c = &out->comp_info[scan->component_index[i]];
    blocks += c->h_samp_factor * c->v_samp_factor;
  }
  return blocks > C_MAX_BLOCKS_IN_MCU;
}

/* Gives each component a scan of its own where is_too_wide. */
static void part_wide_scans(j_compress_ptr out) {
  int n = 0;
  for (int i = 0; i < out->num_scans; i++)
    n += is_too_wide(out, &out->scan_info[i]) ? out->scan_info[i].comps_in_scan : 1;
  if (n == out->num_scans)
    return;
  jpeg_scan_info *parted = out->mem->alloc_small(
      (j_common_ptr)out, JPOOL_IMAGE, n * sizeof(jpeg_scan_info));
  int at = 0;
  for (int i = 0; i < out->num_scans; i++) {
    const jpeg_scan_info *scan = &out->scan_info[i];
    if (!is_too_wide(out, scan)) {
      parted[at++] = *scan;
      continue;
    }
    for (int c = 0; c < scan->comps_in_scan; c++, at++) {
      parted[at] = *scan;
      parted[at].comps_in_scan = 1;
      parted[at].component_index[0] = scan->component_index[c];
    }
  }
  out->scan_info = parted;
  out->num_scans = n;
}

static int begins_with(const struct jpeg_marker_struct *m, const char *text,
                       size_t len) {
  return m->data_length >= len && memcmp(m->data, text, len) == 0;
}

static void copy_markers(recoder *r, int keep_exif) {
  for (jpeg_saved_marker_ptr m = r->in.marker_list; m != NULL; m = m->next) {
    int keep = 0;
    switch (m->marker) {
    case JPEG_APP0 + 1:
      keep = keep_exif && begins_with(m, "Exif\0", 6);
      break;
    case JPEG_APP0 + 2:
      keep = begins_with(m, "ICC_PROFILE", 12);
      break;
    case JPEG_APP0 + 14:
      /* libjpeg writes one itself where the colour space needs it. */
      keep = begins_with(m, "Adobe", 5) && !r->out.write_Adobe_marker;
      break;
    }
    if (keep)
      jpeg_write_marker(&r->out, m->marker, m->data, m->data_length);
  }
}

pj_status pj_transcode(const uint8_t *data, size_t len, const pj_options *opt,
                       int keep_exif, pj_written *out) {
  recoder *r = new_recoder(opt, out);
  if (r == NULL)
    return PJ_MEMORY;
  if (setjmp(r->escape))
    return finish(r, out);
  jpeg_create_decompress(&r->in);
  r->in.progress = &r->progress;
  r->in.mem->max_memory_to_use = (long)opt->max_memory;
  jpeg_mem_src(&r->in, data, len);
  jpeg_save_markers(&r->in, JPEG_APP0 + 1, 0xFFFF);
  jpeg_save_markers(&r->in, JPEG_APP0 + 2, 0xFFFF);
  jpeg_save_markers(&r->in, JPEG_APP0 + 14, 0xFFFF);
  jpeg_read_header(&r->in, TRUE);
  jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&r->in);
  if (is_incomplete(&r->in)) {
    out->incomplete = 1;
    return finish(r, out);
  }
  create_output(r);
  jpeg_copy_critical_parameters(&r->in, &r->out);
  jpeg_simple_progression(&r->out);
  part_wide_scans(&r->out);
  jpeg_write_coefficients(&r->out, coefficients);
  copy_markers(r, keep_exif);
  jpeg_finish_compress(&r->out);
  jpeg_finish_decompress(&r->in);
  return finish(r, out);
}

pj_status pj_encode(const uint8_t *pix, uint32_t width, uint32_t height,
                    int channels, int quality, const uint8_t *icc,
                    unsigned icc_len, const pj_options *opt, pj_written *out) {
  recoder *r = new_recoder(opt, out);
  if (r == NULL)
    return PJ_MEMORY;
  if (setjmp(r->escape))
    return finish(r, out);
  create_output(r);
  j_compress_ptr c = &r->out;
  c->image_width = width;
  c->image_height = height;
  c->input_components = channels;
  c->in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(c);
  jpeg_set_quality(c, quality, TRUE);
  jpeg_simple_progression(c);
  jpeg_start_compress(c, TRUE);
  if (icc_len > 0)
    jpeg_write_icc_profile(c, icc, icc_len);
  size_t stride = (size_t)width * channels;
  while (c->next_scanline < height) {
    /* jpeglib reads from the row only, whatever its type says. */
    JSAMPROW row = (JSAMPROW)(pix + c->next_scanline * stride);
    jpeg_write_scanlines(c, &row, 1);
  }
  jpeg_finish_compress(c);
  return finish(r, out);
}
