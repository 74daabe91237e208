// All of the broken set in one program: a compiler reads CUDA's headers once.
#include "barriers.cu"
#include "clusters.cu"
#include "copies.cu"
#include "grids.cu"
#include "legal.cu"
#include "memory.cu"
#include "races.cu"
#include "undefined.cu"
