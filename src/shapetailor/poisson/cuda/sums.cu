// Sums of each region's values in parts of planes. Always added in the same order, so that equal planes give equal sums.
//
// A block sums one part of one plane; parts follow each other, then planes. `ranks` numbers the regions of a plane's
// image from 0, any number from `regions` on is in none. Out: (planes, parts, regions).
//
// Set by the compiler's options: PIXELS of a part.

constexpr int THREADS = 256, WARPS = THREADS / 32;
//: Regions that are summed in one walk over the pixels.
constexpr int GROUP = 8;

extern "C" __global__ void sums(const float* x, const unsigned char* ranks, float* out, int size, int channels,
                                int regions, int parts) {
    const int part = blockIdx.x % parts, thread = threadIdx.x;
    const long long plane = blockIdx.x / parts, image = plane / channels;
    const int first = part * PIXELS, end = first + PIXELS < size ? first + PIXELS : size;
    x += plane * size, ranks += image * size, out += (plane * parts + part) * regions;
    __shared__ float found[WARPS][GROUP];
    for (int base = 0; base < regions; base += GROUP) {
        float sum[GROUP] = {};
#pragma unroll 4
        for (int at = first + thread; at < end; at += THREADS) {
            const int rank = ranks[at] - base;
            const float value = x[at];
#pragma unroll
            for (int k = 0; k < GROUP; ++k) sum[k] += rank == k ? value : 0.0f;  // what lies outside may be anything
        }
#pragma unroll
        for (int k = 0; k < GROUP; ++k)
            for (int far = 16; far > 0; far /= 2) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], far);
        if (thread % 32 == 0)
#pragma unroll
            for (int k = 0; k < GROUP; ++k) found[thread / 32][k] = sum[k];
        __syncthreads();
        if (thread < GROUP && base + thread < regions) {
            float total = 0;
            for (int warp = 0; warp < WARPS; ++warp) total += found[warp][thread];
            out[base + thread] = total;
        }
        __syncthreads();
    }
}
