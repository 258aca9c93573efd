// For each pixel of (images, height, width) label maps: bits 0 to 3 say whether it shares its label with the left, right,
// upper and lower neighbour, bit 4 whether it is in a region (a label from 0 on).
extern "C" __global__ void cuts(const long long* labels, unsigned char* bits, int images, int height, int width) {
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long long)images * height * width) return;
    const int x = at % width, y = at / width % height;
    const long long here = labels[at];
    unsigned char found = 0;
    if (here >= 0) {
        found = 16;
        if (x > 0 && labels[at - 1] == here) found |= 1;
        if (x < width - 1 && labels[at + 1] == here) found |= 2;
        if (y > 0 && labels[at - width] == here) found |= 4;
        if (y < height - 1 && labels[at + width] == here) found |= 8;
    }
    bits[at] = found;
}
