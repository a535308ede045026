// A kernel as ours must not be: an array that is indexed at run time lies in local memory.
__global__ void keeps_an_array(float* values, int n) {
  float own[64];
  for (int i = 0; i < 64; ++i) own[i] = values[i] * values[i + n];
  for (int i = 0; i < n; ++i) own[(i * 7) % 64] += own[i % 64];
  values[0] = own[n % 64];
}
