// These tests check the placement of pages on NUMA nodes.
#include "runtime/tasks/models/page_placement.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/tasks/session.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

struct Topology {
  explicit Topology(const char* synthetic) {
    hwloc_topology_init(&handle);
    if (synthetic != nullptr) hwloc_topology_set_synthetic(handle, synthetic);
    hwloc_topology_load(handle);
  }
  ~Topology() { hwloc_topology_destroy(handle); }
  hwloc_topology_t handle;
};

std::vector<int> nodes_of(const char* synthetic, const std::vector<unsigned>& cores) {
  const Topology topology(synthetic);
  const Bitmap set(hwloc_bitmap_alloc());
  for (const unsigned core : cores) hwloc_bitmap_set(set.get(), core);
  const Bitmap nodes = nodes_beside(topology.handle, set.get());
  std::vector<int> numbers;
  for (int node = hwloc_bitmap_first(nodes.get()); node >= 0;
       node = hwloc_bitmap_next(nodes.get(), node))
    numbers.push_back(node);
  return numbers;
}

TEST(Numa, nodes_are_those_of_the_cores_that_compute) {
  const char* two_sockets = "pack:2 [numa] core:4 pu:1";
  EXPECT_EQ(nodes_of(two_sockets, {0, 1, 2, 3, 4, 5, 6, 7}), (std::vector{0, 1}));
  EXPECT_EQ(nodes_of(two_sockets, {3, 4}), (std::vector{0, 1}));
  EXPECT_EQ(nodes_of(two_sockets, {4, 6}), (std::vector{1}));
  EXPECT_EQ(nodes_of("pack:2 core:4 pu:1", {0, 7}), (std::vector{0}));
  // Each package has two memories, for example a fast and an ordinary one. Only the first one
  // counts.
  EXPECT_EQ(nodes_of("pack:2 [numa] [numa] core:4 pu:1", {3, 4}), (std::vector{0, 2}));
}

// The kernel reports where it places the pages of a buffer after interleave().
TEST(Numa, interleaved_pages_are_so_for_the_system) {
  const Topology topology(nullptr);
  const Bitmap nodes =
      nodes_beside(topology.handle, hwloc_topology_get_topology_cpuset(topology.handle));
  constexpr std::size_t kBytes = 1 << 20;
  char* memory = static_cast<char*>(std::aligned_alloc(1 << 12, kBytes));
  // As with tensors, the buffer does not begin at the start of a page.
  if (!interleave(topology.handle, nodes, memory + 64, kBytes - 64)) {
    std::free(memory);
    GTEST_SKIP() << "the system does not let a process say where its pages lie: errno " << errno;
  }
  const Bitmap found(hwloc_bitmap_alloc());
  hwloc_membind_policy_t policy{};
  EXPECT_EQ(hwloc_get_area_membind(topology.handle, memory, kBytes, found.get(), &policy,
                                   HWLOC_MEMBIND_BYNODESET),
            0);
  EXPECT_EQ(policy, HWLOC_MEMBIND_INTERLEAVE);
  EXPECT_TRUE(hwloc_bitmap_isequal(found.get(), nodes.get()));
  std::free(memory);
}

TEST(Session, binds_threads_to_the_cores_of_its_workers) {
  const test::TemporaryDirectory models;
  SessionOptions options;
  options.models = models.path();
  const Result<Session> session = Session::start(options);
  ASSERT_TRUE(session) << session.error().message();
  const auto workers = static_cast<int>(session->workers().size());
  if (workers < 2) GTEST_SKIP() << "one core cannot be shared";
  cpu_set_t taken;
  CPU_ZERO(&taken);
  for (int worker = 0; worker < workers; ++worker) {
    cpu_set_t own, both;
    CPU_ZERO(&own);
    std::jthread([&] {
      session->bind_to_cpu_worker(worker);
      ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    }).join();
    EXPECT_GT(CPU_COUNT(&own), 0);
    CPU_AND(&both, &own, &taken);
    EXPECT_EQ(CPU_COUNT(&both), 0) << "worker " << worker << " shares a core";
    CPU_OR(&taken, &taken, &own);
  }
}

}  // namespace
}  // namespace omni
