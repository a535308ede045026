// These tests run StarPU with a CPU worker and CUDA workers. What a task writes on one of them, a
// task on another reads.
#include <gtest/gtest.h>
#include <starpu.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/cuda/devices.hpp"
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/worker.hpp"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

constexpr unsigned kAll = 0xFFFFFFFF;

__global__ void scale_kernel(int count, float factor, float* values) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] *= factor;
}

// Adds the sum of all values to *sum. One block adds up in warps, and then over them.
__global__ void sum_kernel(int count, const float* values, float* sum) {
  __shared__ float warps[32];
  float own = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    own += values[i];
  for (int lanes = warpSize / 2; lanes > 0; lanes /= 2) own += __shfl_down_sync(kAll, own, lanes);
  if (threadIdx.x % warpSize == 0) warps[threadIdx.x / warpSize] = own;
  __syncthreads();
  if (threadIdx.x >= warpSize) return;
  own = threadIdx.x < blockDim.x / warpSize ? warps[threadIdx.x] : 0;
  for (int lanes = warpSize / 2; lanes > 0; lanes /= 2) own += __shfl_down_sync(kAll, own, lanes);
  if (threadIdx.x == 0) *sum += own;
}

int count_of(void* buffer) { return static_cast<int>(STARPU_VECTOR_GET_NX(buffer)); }
float* values_of(void* buffer) { return reinterpret_cast<float*>(STARPU_VECTOR_GET_PTR(buffer)); }

void scale_here(void* buffers[], void* factor) {
  for (int i = 0; i < count_of(buffers[0]); ++i)
    values_of(buffers[0])[i] *= *static_cast<float*>(factor);
}
void scale_there(void* buffers[], void* factor) {
  const int count = count_of(buffers[0]);
  launch(scale_kernel, dim3(static_cast<unsigned>(count + 255) / 256), dim3(256), 0,
         starpu_cuda_get_local_stream(), count, *static_cast<float*>(factor),
         values_of(buffers[0]));
}
void sum_here(void* buffers[], void*) {
  float* values = values_of(buffers[0]);
  *values_of(buffers[1]) += std::accumulate(values, values + count_of(buffers[0]), 0.0f);
}
void sum_there(void* buffers[], void*) {
  launch(sum_kernel, dim3(1), dim3(256), 0, starpu_cuda_get_local_stream(), count_of(buffers[0]),
         values_of(buffers[0]), values_of(buffers[1]));
}

starpu_codelet codelet(const char* name, starpu_cpu_func_t here, starpu_cuda_func_t there) {
  starpu_codelet made;
  starpu_codelet_init(&made);
  made.name = name;
  made.cpu_funcs[0] = here;
  made.cuda_funcs[0] = there;
  made.cuda_flags[0] = STARPU_CUDA_ASYNC;
  return made;
}

class StarPU : public testing::Test {
 protected:
  void SetUp() override {
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 1;
    ASSERT_EQ(cudaGetDeviceCount(&conf.ncuda), cudaSuccess);
    conf.nopencl = 0;
    conf.sched_policy_name = "eager";
    ASSERT_EQ(starpu_init(&conf), 0);
    ASSERT_EQ(static_cast<int>(starpu_cuda_worker_get_count()), conf.ncuda);
    scale_ = codelet("scale", scale_here, scale_there);
    scale_.nbuffers = 1;
    scale_.modes[0] = STARPU_RW;
    sum_ = codelet("sum", sum_here, sum_there);
    sum_.nbuffers = 2;
    sum_.modes[0] = STARPU_R;
    sum_.modes[1] = STARPU_RW;
  }
  void TearDown() override {
    release_cuda_workers();
    starpu_shutdown();
  }

  // Submits a task for the CPU or for the GPU. If `where` is 0, it runs wherever StarPU likes, or
  // on one `worker`.
  void submit(starpu_codelet& what, unsigned where, const float* factor,
              std::initializer_list<starpu_data_handle_t> handles, int worker = -1) {
    starpu_task* task = starpu_task_create();
    task->cl = &what;
    std::copy(handles.begin(), handles.end(), task->handles);
    task->where = where != 0 ? static_cast<std::int32_t>(where) : -1;
    task->cl_arg = const_cast<float*>(factor);
    task->cl_arg_size = factor != nullptr ? sizeof *factor : 0;
    task->execute_on_a_specific_worker = worker >= 0;
    task->workerid = static_cast<unsigned>(std::max(worker, 0));
    ASSERT_EQ(starpu_task_submit(task), 0);
  }

  starpu_codelet scale_, sum_;
};

class Vector {
 public:
  explicit Vector(std::vector<float>& values) {
    starpu_vector_data_register(&handle_, STARPU_MAIN_RAM,
                                reinterpret_cast<std::uintptr_t>(values.data()),
                                static_cast<std::uint32_t>(values.size()), sizeof(float));
  }
  ~Vector() { starpu_data_unregister(handle_); }
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;
  operator starpu_data_handle_t() const { return handle_; }

 private:
  starpu_data_handle_t handle_;
};

TEST_F(StarPU, tasks_on_both_see_what_the_other_wrote) {
  const float two = 2, half = 0.5f;
  std::vector<float> values(1000, 1), total(1);
  {
    const Vector data(values), sum(total);
    submit(scale_, STARPU_CUDA, &two, {data});  // 2
    submit(sum_, STARPU_CPU, nullptr, {data, sum});
    submit(scale_, STARPU_CPU, &two, {data});  // 4
    submit(sum_, STARPU_CUDA, nullptr, {data, sum});
    submit(scale_, STARPU_CUDA, &half, {data});  // 2
    submit(sum_, STARPU_CUDA, nullptr, {data, sum});
    submit(scale_, STARPU_CUDA, &half, {data});  // 1
    submit(sum_, STARPU_CPU, nullptr, {data, sum});
  }
  EXPECT_EQ(total[0], 9000);
  EXPECT_EQ(values, std::vector<float>(1000, 1));
}

// Our own GPU implementations use a CudaWorker; it outlives the streams of StarPU.
TEST_F(StarPU, a_worker_has_a_workspace_and_blas) {
  std::vector<float> values(1000, 2), total(1);
  {
    const Vector data(values), sum(total);
    starpu_codelet norm = codelet("norm", nullptr, [](void* buffers[], void*) {
      CudaWorker& worker = CudaWorker::current();
      const int count = count_of(buffers[0]);
      auto* copy =
          static_cast<float*>(worker.workspace(static_cast<std::size_t>(count) * sizeof(float)));
      check(cudaMemcpyAsync(copy, values_of(buffers[0]),
                            static_cast<std::size_t>(count) * sizeof(float),
                            cudaMemcpyDeviceToDevice, worker.stream()),
            "copying");
      const float one = 1, zero = 0;
      check(cublasSgemm(worker.blas(), CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, count, &one, copy, count,
                        values_of(buffers[0]), count, &zero, values_of(buffers[1]), 1),
            "a product");
    });
    norm.nbuffers = 2;
    norm.modes[0] = STARPU_R;
    norm.modes[1] = STARPU_W;
    submit(norm, STARPU_CUDA, nullptr, {data, sum});
    starpu_task_wait_for_all();
  }
  EXPECT_EQ(total[0], 4000);
}

TEST_F(StarPU, many_tasks_wherever_there_is_room) {
  const float two = 2, half = 0.5f;
  std::vector<std::vector<float>> values(20, std::vector<float>(5000, 1));
  std::vector<float> total(1);
  {
    const Vector sum(total);
    std::vector<std::unique_ptr<Vector>> data;
    for (auto& one : values) data.push_back(std::make_unique<Vector>(one));
    for (int round = 0; round < 10; ++round)
      for (const auto& one : data) {
        submit(scale_, 0, &two, {*one});
        submit(scale_, 0, &half, {*one});
      }
    for (const auto& one : data) submit(sum_, 0, nullptr, {*one, sum});
    starpu_task_wait_for_all();
  }
  EXPECT_EQ(total[0], 100000);
  for (const auto& one : values) EXPECT_EQ(one, std::vector<float>(5000, 1));
}

// 40 MB go through the first and the last device. In one of the runs of this test there are two
// devices, of which neither holds that much.
TEST_F(StarPU, data_travel_between_devices_and_make_room) {
  const float two = 2;
  int workers[STARPU_NMAXWORKERS];
  const auto last =
      starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, STARPU_NMAXWORKERS) - 1;
  std::vector<std::vector<float>> values(40, std::vector<float>(250000, 1));
  {
    std::vector<std::unique_ptr<Vector>> data;
    for (auto& one : values) data.push_back(std::make_unique<Vector>(one));
    for (const auto& one : data) {
      submit(scale_, STARPU_CUDA, &two, {*one}, workers[0]);
      submit(scale_, STARPU_CUDA, &two, {*one}, workers[last]);
    }
    starpu_task_wait_for_all();
  }
  for (const auto& one : values) EXPECT_EQ(one, std::vector<float>(250000, 4));
}

// The parts are blocks of columns, which StarPU copies row by row.
TEST_F(StarPU, parts_of_a_matrix_travel) {
  const float two = 2;
  std::vector<float> values(40 * 30, 1);
  starpu_data_handle_t matrix;
  starpu_matrix_data_register(&matrix, STARPU_MAIN_RAM,
                              reinterpret_cast<std::uintptr_t>(values.data()), 40, 40, 30,
                              sizeof(float));
  starpu_data_filter filter{};
  filter.filter_func = starpu_matrix_filter_block;  // of columns: each with gaps between its rows
  filter.nchildren = 4;
  starpu_data_partition(matrix, &filter);
  static starpu_codelet touch;
  touch = codelet("touch", nullptr, [](void* buffers[], void*) {
    const auto* part = static_cast<starpu_matrix_interface*>(buffers[0]);
    for (std::uint32_t y = 0; y < part->ny; ++y)
      launch(scale_kernel, dim3(1), dim3(256), 0, starpu_cuda_get_local_stream(),
             static_cast<int>(part->nx), 2.0f, reinterpret_cast<float*>(part->ptr) + y * part->ld);
  });
  touch.nbuffers = 1;
  touch.modes[0] = STARPU_RW;
  for (const int i : {1, 3})
    submit(touch, STARPU_CUDA, &two, {starpu_data_get_sub_data(matrix, 1, i)});
  starpu_task_wait_for_all();
  starpu_data_unpartition(matrix, STARPU_MAIN_RAM);
  starpu_data_unregister(matrix);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], i % 40 / 10 % 2 == 1 ? 2 : 1) << i;
}

}  // namespace
}  // namespace omni
