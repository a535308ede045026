#include "codelets/dense/bf16.hpp"

#include "codelets/dense/onednn_support.hpp"

namespace omni {

const char* bf16_in_vain() {
#ifdef OMNI_ONEDNN
  if (onednn::uses(dnnl::cpu_isa::avx512_core_bf16)) return nullptr;
  return onednn::uses(dnnl::cpu_isa::avx512_core)
             ? "the cores have no instructions for it: expect fp32 to be faster"
             : "without AVX-512 the cores only round to it, which saves memory: expect fp32 to be "
               "faster";
#else
  return "without oneDNN the cores multiply in fp32: expect fp32 to be faster";
#endif
}

}  // namespace omni
