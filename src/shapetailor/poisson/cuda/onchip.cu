// Chebyshev half-steps on a checkerboard that stay on the chip.
//
// A plane (one channel of one image at one α) is loaded once, takes all its half-steps in shared memory, and is written
// once. A block of threads holds ROWS rows of it; a cluster of C blocks holds C times as many and exchanges its rows at
// the seams through distributed shared memory. The method is that of poisson/cpu/checkerboard.py (Golub & Varga 1961).
//
// Pixel (y, x) has the colour (y + x) & 1 and lies at column x / 2 of its colour's rows. Its neighbours have the other
// colour: above and below at the same column, left and right at the same column and at one beside it. A thread owns R
// rows of two columns of pixels: D⁻¹x and the cuts between pixels, as bits, stay in its registers.
//
// Planes too large for a cluster are cut into tiles with a frame of HALO pixels. A pass does as many half-steps as the
// frame is wide: what is wrong at a tile's edge comes one pixel further in each.
//
// `load`, `half_step` and `store` are what one thread does between barriers. They are plain C++, so that tests run them
// on a CPU, thread after thread.
//
// Set by the compiler's options: P columns of a colour, G strips of R rows in a block, C blocks in a cluster.

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
typedef unsigned Remote;  // an address in another block's shared memory
DEVICE void store_remote(Remote base, int place, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(base + 4u * place), "f"(value) : "memory");
}
DEVICE bool everywhere(bool mine) { return __all_sync(0xffffffffu, mine); }
DEVICE int count_bits(unsigned bits) { return __popc(bits); }
DEVICE float ratio(float a, float b) { return __fdividef(a, b); }
// Hides where a value comes from. Else the compiler computes all pixels' weights and places once, before the steps, and
// runs out of registers.
DEVICE unsigned opaque(unsigned bits) {
    asm volatile("" : "+r"(bits));
    return bits;
}
#else
#include <math.h>
#define DEVICE static inline
typedef float* Remote;
DEVICE void store_remote(Remote base, int place, float value) { base[place] = value; }
DEVICE bool everywhere(bool mine) { return mine; }
DEVICE int count_bits(unsigned bits) { return __builtin_popcount(bits); }
DEVICE float ratio(float a, float b) { return a / b; }
DEVICE unsigned opaque(unsigned bits) { return bits; }
#endif

constexpr int ROWS = G * R, THREADS = G * P;
//: Floats of one colour in shared memory: a row of the neighbouring block before and after the rows.
constexpr int COLOUR = (ROWS + 2) * P;
//: Rows that are done together, by the short way if none of their pixels lies at a cut.
constexpr int GROUP = 4;
static_assert(R % GROUP == 0 && R <= 16 && P % 32 == 0, "strips are whole groups of rows, warps whole columns");
static_assert(1024 % THREADS == 0, "an SM has 1024 threads of 64 registers");

//: Bits of a pixel: which neighbours it exchanges data with, and whether it is in a region at all.
enum { LEFT = 1, RIGHT = 2, UP = 4, DOWN = 8, INSIDE = 16 };

struct Problem {
    const float* x;             // the plane's right-hand side
    const float* before;        // its iterate so far, or null for zero
    const unsigned char* bits;  // its image's
    float* out;
    int height, width;
    int top, left;        // of the block's first pixel, both even
    int clip[4];          // first and last row and column (exclusive) that are written
};

struct Steps {
    float alpha, rho2;
    int count;  // half-steps, the last one with ω = 1
};

struct Mine {
    float b[2][R];  // x / (1 + 4α) at the even and the odd column
    // Bit i: row i of the even column has that neighbour; bit 16 + i: of the odd column. `side` is outside the columns.
    unsigned up, down, side, between;
    unsigned fast;  // bit k: in group k only neighbours at the side may be missing, of all pixels of a column
};

// The bound of `chebyshev.half_steps` for conductances 0 and 1.
DEVICE Steps plan(float alpha, float tol) {
    Steps steps;
    steps.alpha = alpha;
    const float rho = 4 * alpha / (1 + 4 * alpha), more = 1 / (4 * alpha);  // 1/ρ = 1 + more
    steps.rho2 = rho * rho;
    const float rate = log1pf(more + sqrtf(more * (2 + more)));
    const float aim = sqrtf(2 * (1 + 4 * alpha) / (1 + alpha)) / tol;
    const float wanted = logf(aim + sqrtf(aim * aim - 1)) / rate;
    steps.count = 1 + (int)ceilf(fmaxf(wanted, 1.0f));  // α = 0: an infinite rate, and one half-step for each colour
    return steps;
}

DEVICE float next_omega(float omega, int step, const Steps& steps) {
    if (step == 0 || step == steps.count - 1) return 1;
    return 1 / (1 - omega * steps.rho2 / (step == 1 ? 2 : 4));
}

DEVICE int place_of(int row, int column) { return (row + 1) * P + column; }

DEVICE void load(Mine& me, float* u, int thread, const Problem& p, float alpha) {
    const int j = thread % P, strip = thread / P;
    me.up = me.down = me.side = me.between = me.fast = 0;
    unsigned whole = 0xffffffffu;  // bit i: both pixels of row i have all neighbours, but for those at the side
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int row = strip * R + i, y = p.top + row;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            const int x = p.left + 2 * j + odd, bit = i + 16 * odd;
            const bool there = y >= 0 && y < p.height && x >= 0 && x < p.width;
            const int at = y * p.width + x;
            const unsigned bits = there ? p.bits[at] : 0u;
            const bool inside = bits & INSIDE, alone = (bits & 15u) == 0;
            const float data = inside ? p.x[at] : 0.0f;
            me.b[odd][i] = ratio(data, 1 + 4 * alpha);
            // A pixel without neighbours keeps its value.
            const float begin = alone ? data : p.before ? p.before[at] : 0.0f;
            u[((i ^ odd) & 1) * COLOUR + place_of(row, j)] = begin;
            me.up |= (bits / UP & 1u) << bit;
            me.down |= (bits / DOWN & 1u) << bit;
            me.side |= (bits / (odd ? RIGHT : LEFT) & 1u) << bit;
            me.between |= (bits / (odd ? LEFT : RIGHT) & 1u) << bit;
            const unsigned needed = 15u & ~(odd ? RIGHT : LEFT);
            if ((bits & needed) != needed) whole &= ~(1u << i);
        }
    }
#pragma unroll
    for (int group = 0; group < R / GROUP; ++group) {
        const unsigned all = (1u << GROUP) - 1u, even = me.side >> (GROUP * group) & all,
                       odd = me.side >> (16 + GROUP * group) & all;
        const bool plain =
            (whole >> (GROUP * group) & all) == all && (even == 0 || even == all) && (odd == 0 || odd == all);
        me.fast |= (everywhere(plain) ? 1u : 0u) << group;
    }
    // The rows beyond the block, which other blocks own.
    for (int end = 0; end < 2; ++end) {
        if (strip != (end ? G - 1 : 0)) continue;
        const int row = end ? ROWS : -1, y = p.top + row;
        for (int odd = 0; odd < 2; ++odd) {
            const int x = p.left + 2 * j + odd, at = y * p.width + x;
            const bool there = y >= 0 && y < p.height && x >= 0 && x < p.width;
            const bool inside = there && (p.bits[at] & INSIDE);
            u[((row ^ odd) & 1) * COLOUR + place_of(row, j)] = inside && p.before ? p.before[at] : 0.0f;
        }
    }
}

// u += ω (B u + D⁻¹x − u) at the pixels of one colour. A missing neighbour is replaced by the pixel itself, as if D were
// 1 + 4α everywhere; the step is then longer by (1 + 4α)/D.
template <int COL>
DEVICE void half_step(const Mine& me, float* u, bool has_above, Remote above, bool has_below, Remote below, int thread,
                      float omega, float alpha) {
    const int j = thread % P, strip = thread / P;
    float* const own = u + COL * COLOUR + place_of(strip * R, j);
    const float* const other = u + (1 - COL) * COLOUR + place_of(strip * R, j);
    const float diagonal = 1 + 4 * alpha, weight = ratio(alpha, diagonal);
    const float three = omega * ratio(diagonal, 1 + 3 * alpha);
    const unsigned up = opaque(me.up), down = opaque(me.down), side = opaque(me.side), between = opaque(me.between);
    float before = other[-P], here = other[0];
#pragma unroll
    for (int group = 0; group < R / GROUP; ++group) {
        // All loads come before all stores: the compiler cannot know that these are of another colour.
        float after[GROUP], beside[GROUP], mine[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const int i = GROUP * group + k, odd = (i ^ COL) & 1;
            after[k] = other[(i + 1) * P], beside[k] = other[i * P + (odd ? 1 : -1)], mine[k] = own[i * P];
        }
        if (me.fast >> group & 1u) {
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                const int i = GROUP * group + k, odd = (i ^ COL) & 1;
                const bool sided = side >> (GROUP * group + 16 * odd) & 1u;  // as in all rows of the group
                const float sum = (before + after[k]) + (here + (sided ? beside[k] : mine[k]));
                mine[k] += (sided ? omega : three) * (me.b[odd][i] + weight * sum - mine[k]);
                before = here, here = after[k];
            }
        } else {
            // Bits of the number of neighbours, for all pixels at once.
            const unsigned first = up ^ down, second = side ^ between, ones = first ^ second;
            const unsigned twos = (up & down) ^ (side & between) ^ (first & second), four = up & down & side & between;
            const float two = omega * ratio(diagonal, 1 + 2 * alpha), one = omega * ratio(diagonal, 1 + alpha);
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                const int i = GROUP * group + k, odd = (i ^ COL) & 1;
                const unsigned bit = 1u << (i + 16 * odd);
                const float sum = ((up & bit ? before : mine[k]) + (down & bit ? after[k] : mine[k])) +
                                  ((between & bit ? here : mine[k]) + (side & bit ? beside[k] : mine[k]));
                const float step = twos & bit ? (ones & bit ? three : two) : ones & bit ? one : four & bit ? omega : 0.0f;
                mine[k] += step * (me.b[odd][i] + weight * sum - mine[k]);
                before = here, here = after[k];
            }
        }
#pragma unroll
        for (int k = 0; k < GROUP; ++k) own[(GROUP * group + k) * P] = mine[k];
    }
    if (strip == 0 && has_above) store_remote(above, COL * COLOUR + place_of(ROWS, j), own[0]);
    if (strip == G - 1 && has_below) store_remote(below, COL * COLOUR + place_of(-1, j), own[(R - 1) * P]);
}

DEVICE void store(const float* u, int thread, const Problem& p) {
    const int j = thread % P, strip = thread / P;
    const int top = opaque(p.top), left = opaque(p.left), width = opaque(p.width);
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int row = strip * R + i, y = top + row;
        for (int odd = 0; odd < 2; ++odd) {
            const int x = left + 2 * j + odd;
            if (y >= p.clip[0] && y < p.clip[1] && x >= p.clip[2] && x < p.clip[3])
                p.out[y * width + x] = u[((i ^ odd) & 1) * COLOUR + place_of(row, j)];
        }
    }
}

// What a block works on. Blocks of a cluster follow each other, then tiles, then images, then planes of an image from the
// last one: α mostly grows with it, and the longest work should not begin last.
DEVICE Problem placed(long long block, const float* x, const float* before, const unsigned char* bits, float* out,
                      int images, int height, int width, int channels, int scales, int tiles_across, int tiles, int halo,
                      int* number) {
    const int rank = (int)(block % C), tile = (int)(block / C % tiles);
    const long long size = (long long)height * width, image = block / C / tiles % images;
    *number = channels * scales - 1 - (int)(block / C / tiles / images);
    const long long plane = image * channels * scales + *number;
    const int inner_rows = C * ROWS - 2 * halo, inner_columns = 2 * P - 2 * halo;
    const int row = tile / tiles_across * inner_rows, column = tile % tiles_across * inner_columns;
    Problem p;
    p.x = x + (image * channels + *number % channels) * size;
    p.before = before ? before + plane * size : nullptr;
    p.bits = bits + image * size;
    p.out = out + plane * size;
    p.height = height, p.width = width;
    p.top = row - halo + rank * ROWS, p.left = column - halo;
    p.clip[0] = row, p.clip[1] = row + inner_rows < height ? row + inner_rows : height;
    p.clip[2] = column, p.clip[3] = column + inner_columns < width ? column + inner_columns : width;
    return p;
}

#ifdef __CUDACC__

DEVICE unsigned address_in(unsigned rank, const float* shared) {
    unsigned mine = (unsigned)__cvta_generic_to_shared(shared), theirs;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"(rank));
    return theirs;
}

DEVICE void barrier() {
    if (C == 1) {
        __syncthreads();
    } else {
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
}

// Half-steps `first` to `end` (exclusive) of every plane: (images, scales, channels, height, width).
extern "C" __global__ void
#if C > 1
    __cluster_dims__(C, 1, 1)
#endif
        __launch_bounds__(THREADS, 1024 / THREADS) onchip(const float* x, const float* before, const unsigned char* bits,
                                          const float* alphas, float* out, int images, int height, int width,
                                          int channels, int scales, int tiles_across, int tiles, int halo, int first,
                                          int end, double tol) {
    extern __shared__ float u[];
    int number;
    const Problem p = placed(blockIdx.x, x, before == x ? nullptr : before, bits, out, images, height, width, channels,
                             scales, tiles_across, tiles, halo, &number);
    const Steps steps = plan(alphas[number], (float)tol);
    const int thread = threadIdx.x, rank = blockIdx.x % C;
    Mine me;
    load(me, u, thread, p, steps.alpha);
    const Remote above = C > 1 && rank > 0 ? address_in(rank - 1, u) : 0;
    const Remote below = C > 1 && rank < C - 1 ? address_in(rank + 1, u) : 0;
    barrier();
    float omega = 1;
    const int last = end < steps.count ? end : steps.count;
    for (int step = 0; step < last; ++step) {
        omega = next_omega(omega, step, steps);
        if (step < first) continue;
        if (step & 1)
            half_step<1>(me, u, C > 1 && rank > 0, above, C > 1 && rank < C - 1, below, thread, omega, steps.alpha);
        else
            half_step<0>(me, u, C > 1 && rank > 0, above, C > 1 && rank < C - 1, below, thread, omega, steps.alpha);
        barrier();
    }
    store(u, thread, p);
}

#endif
