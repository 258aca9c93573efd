// Runs the threads of poisson/cuda/onchip.cu one after the other.
#include <vector>
#include "onchip.cu"  // P, G, R and C come from the command line

extern "C" void emulate(const float* x, const float* before, const unsigned char* bits, const float* alphas, float* out,
                        int images, int height, int width, int channels, int scales, int tiles_across, int tiles,
                        int halo, int first, int end, double tol) {
    for (long long cluster = 0; cluster < (long long)images * channels * scales * tiles; ++cluster) {
        std::vector<std::vector<float>> shared(C, std::vector<float>(2 * COLOUR));
        std::vector<std::vector<Mine>> mine(C, std::vector<Mine>(THREADS));
        std::vector<Problem> parts;
        int number = 0;
        for (int rank = 0; rank < C; ++rank)
            parts.push_back(placed(cluster * C + rank, x, before, bits, out, images, height, width, channels, scales,
                                   tiles_across, tiles, halo, &number));
        const Steps steps = plan(alphas[number], (float)tol);
        for (int rank = 0; rank < C; ++rank)
            for (int t = 0; t < THREADS; ++t) load(mine[rank][t], shared[rank].data(), t, parts[rank], steps.alpha);
        float omega = 1;
        const int last = end < steps.count ? end : steps.count;
        for (int step = 0; step < last; ++step) {
            omega = next_omega(omega, step, steps);
            if (step < first) continue;
            for (int rank = 0; rank < C; ++rank)
                for (int t = 0; t < THREADS; ++t) {
                    float* above = rank ? shared[rank - 1].data() : nullptr;
                    float* below = rank < C - 1 ? shared[rank + 1].data() : nullptr;
                    (step & 1 ? half_step<1> : half_step<0>)(mine[rank][t], shared[rank].data(), rank > 0, above,
                                                             rank < C - 1, below, t, omega, steps.alpha);
                }
        }
        for (int rank = 0; rank < C; ++rank)
            for (int t = 0; t < THREADS; ++t) store(shared[rank].data(), t, parts[rank]);
    }
}
