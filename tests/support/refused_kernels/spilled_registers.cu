// A kernel as ours must not be: it holds more values than a thread has registers.
__global__ __launch_bounds__(1024) void holds_too_much(float* values, int n) {
  float own[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) own[i] = values[i * n];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) values[(95 - i) * n + threadIdx.x] = own[i];
}
