// StarPU finds these functions in a library of scheduling policies. So any StarPU program can use
// the policy "omni": STARPU_SCHED_LIB=.../libomni_sched.so STARPU_SCHED=omni.
#include <starpu_scheduler.h>

#include <string_view>

#include "scheduling/policy/omni_policy.hpp"

starpu_sched_policy* starpu_get_sched_lib_policy(const char* name) {
  starpu_sched_policy& policy = omni::omni_policy();
  return std::string_view(name) == policy.policy_name ? &policy : nullptr;
}

starpu_sched_policy** starpu_get_sched_lib_policies() {
  static starpu_sched_policy* all[] = {&omni::omni_policy(), nullptr};
  return all;
}
