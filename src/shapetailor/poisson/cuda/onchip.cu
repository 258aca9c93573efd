// Chebyshev half-steps on a checkerboard that stay on the chip.
//
// A plane (one channel of one image at one α) is loaded once, takes all its half-steps in shared memory, and is written
// once. A block of threads holds ROWS rows of it; a cluster of C blocks holds C times as many and exchanges its rows at
// the seams through distributed shared memory. The method is that of poisson/cpu/checkerboard.py (Golub & Varga 1961).
//
// Pixel (y, x) has the colour (y + x) & 1 and lies at column x / 2 of its colour's rows. Its neighbours have the other
// colour: above and below at the same column, left and right at the same column and at one beside it. A thread owns R
// rows of two columns of pixels, whose D⁻¹x stays in its registers.
//
// Pixels with all four neighbours are done row by row, without a question. Those at a cut stand in a list of their block,
// which its threads share. Where cuts are so many that the list is too short, each pixel asks for its neighbours.
//
// Planes too large for a cluster are cut into tiles with a frame of HALO pixels. A pass does as many half-steps as the
// frame is wide: what is wrong at a tile's edge comes one pixel further in each.
//
// `load`, `half_step`, `at_cuts`, `one_by_one` and `store` are what one thread does between barriers. They are plain C++,
// so that tests run them on a CPU, thread after thread.
//
// Set by the compiler's options: P columns of a colour, G strips of R rows in a block, C blocks in a cluster, PAD numbers
// after each row, LIST pixels of a colour in the list.

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
typedef unsigned Remote;  // an address in another block's shared memory
DEVICE void store_remote(Remote base, int place, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(base + 4u * place), "f"(value) : "memory");
}
DEVICE int count_bits(unsigned bits) { return __popc(bits); }
DEVICE float ratio(float a, float b) { return __fdividef(a, b); }
DEVICE int taken(int* count) { return atomicAdd(count, 1); }
// Hides where a value comes from. Else the compiler computes all pixels' places once, before the steps, and runs out of
// registers.
DEVICE unsigned opaque(unsigned bits) {
    asm volatile("" : "+r"(bits));
    return bits;
}
#else
#include <math.h>
#define DEVICE static inline
typedef float* Remote;
DEVICE void store_remote(Remote base, int place, float value) { base[place] = value; }
DEVICE int count_bits(unsigned bits) { return __builtin_popcount(bits); }
DEVICE float ratio(float a, float b) { return a / b; }
DEVICE int taken(int* count) { return (*count)++; }
DEVICE unsigned opaque(unsigned bits) { return bits; }
#endif

constexpr int ROWS = G * R, THREADS = G * P;
//: Floats of a row, an odd number: pixels of one column lie in different banks of the memory.
constexpr int PITCH = P + PAD;
//: Floats of one colour in shared memory: a row of the neighbouring block before and after the rows.
constexpr int COLOUR = (ROWS + 2) * PITCH;
//: Rows whose loads are under way together.
constexpr int GROUP = 4;
static_assert(R % GROUP == 0 && R <= 16 && P % 32 == 0, "strips are whole groups of rows, warps whole columns");
static_assert(PITCH % 2 == 1 && COLOUR < 1 << 15, "a place has 15 bits in the list");
static_assert(1024 % THREADS == 0, "an SM has 1024 threads of 64 registers");

//: Bits of a pixel: which neighbours it exchanges data with, and whether it is in a region at all.
enum { LEFT = 1, RIGHT = 2, UP = 4, DOWN = 8, ALL = 15, INSIDE = 16 };

struct Problem {
    const float* x;              // the plane's right-hand side
    const float* before;         // its iterate so far, or null for zero
    const unsigned char* bits;   // its image's
    const unsigned char* ranks;  // numbers of its image's regions
    const float* means;          // each region's, taken off x and put back at the end; or null
    float* out;
    int height, width;
    int top, left;  // of the block's first pixel, both even
    int clip[4];    // first and last row and column (exclusive) that are written
};

struct Steps {
    float alpha, rho2;
    int count;  // half-steps, the last one with ω = 1
};

struct Mine {
    float b[2][R];   // x / (1 + 4α) at the even and the odd column
    unsigned plain;  // bit i: row i of the even column has all four neighbours; bit 16 + i: of the odd column
};

// A pixel with one to three neighbours: their bits, from bit 4 on whether its column is odd, from bit 5 on its place.
struct Entry {
    float b;
    unsigned what;
};

struct Shared {
    float* u;     // both colours
    Entry* list;  // both colours
    int* count;   // pixels at a cut, of both colours; if more than LIST, the list is of no use
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

DEVICE int place_of(int row, int column) { return (row + 1) * PITCH + column; }

// A pixel's place in the picture; −1 outside it.
DEVICE int pixel(const Problem& p, int row, int column) {
    const int y = p.top + row, x = p.left + column;
    return y >= 0 && y < p.height && x >= 0 && x < p.width ? y * p.width + x : -1;
}

DEVICE void load(Mine& me, const Shared& s, int thread, const Problem& p, float alpha) {
    const int j = thread % P, strip = thread / P;
    const float scale = ratio(1, 1 + 4 * alpha);
    unsigned connected = 0;  // as `plain`, for pixels with a neighbour
    me.plain = 0;
    for (int i = 0; i < R; ++i) {
        const int row = strip * R + i, place = place_of(row, j);
        for (int odd = 0; odd < 2; ++odd) {
            const int at = pixel(p, row, 2 * j + odd), colour = (i ^ odd) & 1;
            const unsigned bits = at < 0 ? 0u : p.bits[at], near = bits & ALL, bit = 1u << (i + 16 * odd);
            const float data = bits & INSIDE ? p.x[at] - (p.means ? p.means[p.ranks[at]] : 0.0f) : 0.0f;
            s.u[colour * COLOUR + place] = data;
            if (near) connected |= bit;
            if (near == ALL) {
                me.plain |= bit;
            } else if (near) {
                const int slot = taken(s.count + colour);
                if (slot < LIST) s.list[colour * LIST + slot] = {data * scale, (unsigned)place << 5 | odd << 4 | near};
            }
        }
        // What is read beside the last and the first column, of tiles.
        if (j == P - 1)
            for (int k = 1; k <= PAD; ++k) s.u[place + k] = s.u[COLOUR + place + k] = 0;
    }
    // Again, now that registers are free for b. A pixel without neighbours keeps its value.
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int row = strip * R + i;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            float* const u = s.u + ((i ^ odd) & 1) * COLOUR + place_of(row, j);
            me.b[odd][i] = *u * scale;
            if (connected >> (i + 16 * odd) & 1u) *u = p.before ? p.before[pixel(p, row, 2 * j + odd)] : 0.0f;
        }
    }
    // The rows beyond the block, which other blocks own.
    for (int end = 0; end < 2; ++end) {
        if (strip != (end ? G - 1 : 0)) continue;
        const int row = end ? ROWS : -1, place = place_of(row, j);
        for (int odd = 0; odd < 2; ++odd) {
            const int at = pixel(p, row, 2 * j + odd);
            const bool inside = at >= 0 && (p.bits[at] & INSIDE);
            s.u[((row ^ odd) & 1) * COLOUR + place] = inside && p.before ? p.before[at] : 0.0f;
        }
        if (j == P - 1)
            for (int k = 1; k <= PAD; ++k) s.u[place + k] = s.u[COLOUR + place + k] = 0;
    }
}

// A half-step of one colour: ω of the step, the blocks above and below.
struct Step {
    float omega, alpha;
    bool has_above, has_below;
    Remote above, below;
};

// u + ω (B u + D⁻¹x − u) at a pixel with any neighbours. A missing one is replaced by the pixel itself, as if D were
// 1 + 4α everywhere; the step is then longer by (1 + 4α)/D.
DEVICE float updated(const float* other, bool odd, unsigned near, float mine, float b, const Step& step) {
    const float right = other[odd ? 1 : 0], left = other[odd ? 0 : -1], up = other[-PITCH], down = other[PITCH];
    const float sum = ((near & UP ? up : mine) + (near & DOWN ? down : mine)) +
                      ((near & LEFT ? left : mine) + (near & RIGHT ? right : mine));
    const float diagonal = 1 + 4 * step.alpha, longer = ratio(diagonal, 1 + count_bits(near) * step.alpha);
    return mine + step.omega * longer * (b + ratio(step.alpha, diagonal) * sum - mine);
}

// At the pixels with all neighbours.
template <int COL>
DEVICE void half_step(const Mine& me, float* u, int thread, const Step& step) {
    const unsigned plain = opaque(me.plain);
    if (!plain) return;
    const int j = thread % P, strip = thread / P;
    float* const own = u + COL * COLOUR + place_of(strip * R, j);
    const float* const other = u + (1 - COL) * COLOUR + place_of(strip * R, j);
    const float omega = step.omega, weight = ratio(step.alpha, 1 + 4 * step.alpha);
    float before = other[-PITCH], here = other[0];
#pragma unroll
    for (int group = 0; group < R / GROUP; ++group) {
        // All loads come before all stores: the compiler cannot know that these are of another colour.
        float after[GROUP], beside[GROUP], mine[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const int i = GROUP * group + k, odd = (i ^ COL) & 1;
            after[k] = other[(i + 1) * PITCH], beside[k] = other[i * PITCH + (odd ? 1 : -1)];
            mine[k] = plain >> (i + 16 * odd) & 1u ? own[i * PITCH] : 0.0f;  // others write those of the list
        }
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const int i = GROUP * group + k, odd = (i ^ COL) & 1;
            const float sum = (before + after[k]) + (here + beside[k]);
            mine[k] += omega * (me.b[odd][i] + weight * sum - mine[k]);
            before = here, here = after[k];
        }
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const int i = GROUP * group + k, odd = (i ^ COL) & 1;
            if (plain >> (i + 16 * odd) & 1u) own[i * PITCH] = mine[k];
        }
    }
    const int top = 16 * (COL & 1), bottom = R - 1 + 16 * ((R - 1 ^ COL) & 1);  // bits of the first and the last row
    if (strip == 0 && step.has_above && (plain >> top & 1u))
        store_remote(step.above, COL * COLOUR + place_of(ROWS, j), own[0]);
    if (strip == G - 1 && step.has_below && (plain >> bottom & 1u))
        store_remote(step.below, COL * COLOUR + place_of(-1, j), own[(R - 1) * PITCH]);
}

// At the pixels of the list.
template <int COL>
DEVICE void at_cuts(const Shared& s, int thread, const Step& step) {
    for (int slot = thread; slot < s.count[COL]; slot += THREADS) {
        const Entry entry = s.list[COL * LIST + slot];
        const int place = entry.what >> 5;
        float* const own = s.u + COL * COLOUR + place;
        const float* const other = s.u + (1 - COL) * COLOUR + place;
        const float value = updated(other, entry.what >> 4 & 1u, entry.what & ALL, *own, entry.b, step);
        *own = value;
        if (step.has_above && place < place_of(1, 0))
            store_remote(step.above, COL * COLOUR + place + ROWS * PITCH, value);
        if (step.has_below && place >= place_of(ROWS - 1, 0))
            store_remote(step.below, COL * COLOUR + place - ROWS * PITCH, value);
    }
}

// At all pixels, whose neighbours are looked up in memory.
template <int COL>
DEVICE void one_by_one(const Mine& me, float* u, int thread, const Problem& p, const Step& step) {
    const int j = thread % P, strip = opaque(thread / P);
    float* const own = u + COL * COLOUR + place_of(strip * R, j);
    const float* const other = u + (1 - COL) * COLOUR + place_of(strip * R, j);
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int odd = (i ^ COL) & 1, at = pixel(p, strip * R + i, 2 * j + odd);
        const unsigned near = at < 0 ? 0u : p.bits[at] & ALL;
        if (near) own[i * PITCH] = updated(other + i * PITCH, odd, near, own[i * PITCH], me.b[odd][i], step);
    }
    if (strip == 0 && step.has_above) store_remote(step.above, COL * COLOUR + place_of(ROWS, j), own[0]);
    if (strip == G - 1 && step.has_below)
        store_remote(step.below, COL * COLOUR + place_of(-1, j), own[(R - 1) * PITCH]);
}

DEVICE void store(const float* u, int thread, const Problem& p, bool last) {
    const int j = thread % P, strip = thread / P;
    for (int i = 0; i < R; ++i) {
        const int row = strip * R + i, y = p.top + row;
        for (int odd = 0; odd < 2; ++odd) {
            const int x = p.left + 2 * j + odd, at = y * p.width + x;
            if (y < p.clip[0] || y >= p.clip[1] || x < p.clip[2] || x >= p.clip[3]) continue;
            const bool centred = p.means && last && (p.bits[at] & INSIDE);
            p.out[at] = u[((i ^ odd) & 1) * COLOUR + place_of(row, j)] + (centred ? p.means[p.ranks[at]] : 0.0f);
        }
    }
}

// What a block works on. Blocks of a cluster follow each other, then tiles, then images, then planes of an image from the
// last one: α mostly grows with it, and the longest work should not begin last.
DEVICE Problem placed(long long block, const float* x, const float* before, const unsigned char* bits,
                      const unsigned char* ranks, const float* means, int regions, float* out, int images, int height,
                      int width, int channels, int scales, int tiles_across, int tiles, int halo, int* number) {
    const int rank = (int)(block % C), tile = (int)(block / C % tiles);
    const long long size = (long long)height * width, image = block / C / tiles % images;
    *number = channels * scales - 1 - (int)(block / C / tiles / images);
    const long long plane = image * channels * scales + *number;
    const int inner_rows = C * ROWS - 2 * halo, inner_columns = 2 * P - 2 * halo;
    const int row = tile / tiles_across * inner_rows, column = tile % tiles_across * inner_columns;
    Problem p;
    const long long source = image * channels + *number % channels;
    p.x = x + source * size;
    p.before = before ? before + plane * size : nullptr;
    p.bits = bits + image * size;
    p.ranks = ranks + image * size;
    p.means = regions ? means + source * regions : nullptr;
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

// Half-steps `first` to `end` (exclusive) of every plane: (images, scales, channels, height, width). Means are put back
// with the last ones. `before` = x stands for no iterate yet, no `regions` for no means.
extern "C" __global__ void
#if C > 1
    __cluster_dims__(C, 1, 1)
#endif
        __launch_bounds__(THREADS, 1024 / THREADS) onchip(const float* x, const float* before, const unsigned char* bits,
                                          const unsigned char* ranks, const float* means, int regions,
                                          const float* alphas, float* out, int images, int height, int width,
                                          int channels, int scales, int tiles_across, int tiles, int halo, int first,
                                          int end, int finish, double tol) {
    extern __shared__ float u[];
    const Shared s = {u, (Entry*)(u + 2 * COLOUR), (int*)(u + 2 * COLOUR + 4 * LIST)};
    // Found out anew where it is needed: registers are for the half-steps.
    const auto problem = [&](int* number) {
        return placed(opaque(blockIdx.x), x, before == x ? nullptr : before, bits, ranks, means, regions, out, images,
                      height, width, channels, scales, tiles_across, tiles, halo, number);
    };
    const int thread = threadIdx.x, rank = blockIdx.x % C;
    int number;
    Mine me;
    if (thread < 2) s.count[thread] = 0;
    __syncthreads();
    const Problem p = problem(&number);
    const Steps steps = plan(alphas[number], (float)tol);
    load(me, s, thread, p, steps.alpha);
    Step step = {1, steps.alpha, C > 1 && rank > 0, C > 1 && rank < C - 1, 0, 0};
    if (step.has_above) step.above = address_in(rank - 1, u);
    if (step.has_below) step.below = address_in(rank + 1, u);
    barrier();
    const int last = end < steps.count ? end : steps.count;
    int k = 0;
    for (; k < first && k < last; ++k) step.omega = next_omega(step.omega, k, steps);
    if (s.count[0] <= LIST && s.count[1] <= LIST) {
        for (; k < last; ++k) {
            step.omega = next_omega(step.omega, k, steps);
            if (k & 1)
                at_cuts<1>(s, thread, step), half_step<1>(me, u, thread, step);
            else
                at_cuts<0>(s, thread, step), half_step<0>(me, u, thread, step);
            barrier();
        }
    } else {
        const Problem again = problem(&number);
        for (; k < last; ++k) {
            step.omega = next_omega(step.omega, k, steps);
            if (k & 1)
                one_by_one<1>(me, u, thread, again, step);
            else
                one_by_one<0>(me, u, thread, again, step);
            barrier();
        }
    }
    store(u, thread, problem(&number), finish);
}

#endif
