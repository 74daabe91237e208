// A program: its main() keeps it out of a library.
__global__ void fill(int* out) { out[threadIdx.x] = 7; }

int main() { return 0; }
