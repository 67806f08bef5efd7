// The kernels. Each takes the patches of one coding, a warp a patch.

#include "checksum.h"
#include "dense16.h"
#include "dense8.h"
#include "fast.h"
#include "labels.h"
#include "published.h"
#include "raw.h"

#define ARGUMENTS encoded, encoded_bytes, pixels, pixel_bytes, images, patches, count, tables, status

KERNEL l3_published(PARAMETERS)
{
	SHARED(struct published_scratch, scratch, WARPS);
	published_kernel(ARGUMENTS, scratch);
}

KERNEL l3_fast8(PARAMETERS)
{
	SHARED(struct fast_scratch<depth8>, scratch, WARPS);
	fast_kernel<depth8>(ARGUMENTS, scratch);
}

KERNEL l3_fast16(PARAMETERS)
{
	SHARED(struct fast_scratch<depth16>, scratch, WARPS);
	fast_kernel<depth16>(ARGUMENTS, scratch);
}

KERNEL l3_dense8(PARAMETERS)
{
	SHARED(struct dense_scratch<depth8>, scratch, WARPS);
	dense_kernel<depth8, coder8>(ARGUMENTS, scratch);
}

KERNEL l3_dense16(PARAMETERS)
{
	SHARED(struct dense_scratch<depth16>, scratch, WARPS);
	dense_kernel<depth16, coder16>(ARGUMENTS, scratch);
}

KERNEL l3_labels(PARAMETERS)
{
	SHARED(struct labels_scratch, scratch, WARPS);
	labels_kernel(ARGUMENTS, scratch);
}

KERNEL l3_raw(PARAMETERS)
{
	raw_kernel(ARGUMENTS);
}

KERNEL l3_crc(PARAMETERS)
{
	SHARED(struct crc_tables, tables_of_bytes, 1);
	checksum_kernel(ARGUMENTS, tables_of_bytes);
}
