// Memory is asked for before it is needed.

#ifndef L3_AVX2_FORESIGHT_H
#define L3_AVX2_FORESIGHT_H

#include "vector.h"

// A foresight is the memory that the patch after this one will need. Asking for
// it row by row hides how long it takes to come: rows of a patch are too short
// and too far apart for a processor to foresee, and all at once would be more
// than it can wait for.
struct foresight {
	const uint8_t *pixels, *coded;
};

INLINE void foresee_row(struct foresight *f, int64_t row_bytes, int bytes)
{
	enum { LINE = 64, CODED_BYTES = 2 * LINE };
	for (int x = 0; x < bytes; x += LINE)
		_mm_prefetch((const char *)f->pixels + x, _MM_HINT_T1);
	for (int x = 0; x < CODED_BYTES; x += LINE)
		_mm_prefetch((const char *)f->coded + x, _MM_HINT_T1);
	f->pixels += row_bytes;
	f->coded += CODED_BYTES;
}

#endif
