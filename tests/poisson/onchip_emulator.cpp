// Runs the threads of poisson/cuda/onchip.cu one after the other.
#include <vector>
#include "onchip.cu"  // its sizes come from the command line

extern "C" void emulate(const float* x, const float* before, const unsigned char* bits, const unsigned char* ranks,
                        const float* means, int regions, const float* alphas, float* out, int images, int height,
                        int width, int channels, int scales, int tiles_across, int tiles, int halo, int first, int end,
                        int finish, double tol) {
    for (long long cluster = 0; cluster < (long long)images * channels * scales * tiles; ++cluster) {
        std::vector<std::vector<float>> u(C, std::vector<float>(2 * COLOUR));
        std::vector<std::vector<Entry>> list(C, std::vector<Entry>(2 * LIST));
        std::vector<std::vector<int>> count(C, std::vector<int>(2));
        std::vector<std::vector<Mine>> mine(C, std::vector<Mine>(THREADS));
        std::vector<Problem> parts;
        std::vector<Shared> shared;
        int number = 0;
        for (int rank = 0; rank < C; ++rank) {
            parts.push_back(placed(cluster * C + rank, x, before, bits, ranks, means, regions, out, images, height,
                                   width, channels, scales, tiles_across, tiles, halo, &number));
            shared.push_back({u[rank].data(), list[rank].data(), count[rank].data()});
        }
        const Steps steps = plan(alphas[number], (float)tol);
        for (int rank = 0; rank < C; ++rank)
            for (int t = 0; t < THREADS; ++t) load(mine[rank][t], shared[rank], t, parts[rank], steps.alpha);
        float omega = 1;
        const int last = end < steps.count ? end : steps.count;
        for (int k = 0; k < last; ++k) {
            omega = next_omega(omega, k, steps);
            if (k < first) continue;
            for (int rank = 0; rank < C; ++rank) {
                const bool listed = count[rank][0] <= LIST && count[rank][1] <= LIST;
                const Step step = {omega, steps.alpha, rank > 0, rank < C - 1, rank ? u[rank - 1].data() : nullptr,
                                   rank < C - 1 ? u[rank + 1].data() : nullptr};
                for (int t = 0; t < THREADS; ++t) {
                    if (listed) {
                        (k & 1 ? at_cuts<1> : at_cuts<0>)(shared[rank], t, step);
                        (k & 1 ? half_step<1> : half_step<0>)(mine[rank][t], u[rank].data(), t, step);
                    } else {
                        (k & 1 ? one_by_one<1> : one_by_one<0>)(mine[rank][t], u[rank].data(), t, parts[rank], step);
                    }
                }
            }
        }
        for (int rank = 0; rank < C; ++rank)
            for (int t = 0; t < THREADS; ++t) store(u[rank].data(), t, parts[rank], finish);
    }
}
