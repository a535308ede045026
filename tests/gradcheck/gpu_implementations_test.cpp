// These tests check that every codelet has an implementation for GPUs, except those that are named
// here.
#ifdef OMNI_CUDA

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "runtime/tasks/codelet.hpp"

namespace omni::test {
namespace {

using CodeletsAndWhy = std::map<std::string, std::string>;

const CodeletsAndWhy kOnCpusOnly{
    {"decode_batch", "images that are files, or are cut to size, are the CPUs' to prepare"},
    {"decode_values", "messages between ranks are in main memory"},
    {"encode_change", "as decode_values"},
    {"encode_values", "as decode_values"},
    {"decode_samples", "as decode_batch, for the stream that trainings share"},
    {"gather_samples", "floats that are prepared apart are in main memory"},
    {"read_image_files", "files are read by CPUs"},
    {"read_image_values", "files are read by CPUs"},
    {"copy_image_pixels", "images in main memory are gathered there"},
    {"read_image_labels", "as the images are"},
    {"connected_backward_update", "where GPUs compute, it is two tasks"},
};

TEST(GpuImplementations, all_codelets_but_a_few_have_one) {
  CodeletsAndWhy without;
  for (const CodeletBase* codelet : CodeletBase::all())
    if (std::ranges::count(codelet->entries(), Role::gpu, &CodeletBase::Entry::role) == 0) {
      const auto known = kOnCpusOnly.find(codelet->name());
      without[codelet->name()] = known == kOnCpusOnly.end() ? "nobody says" : known->second;
    }
  EXPECT_THAT(without, testing::ContainerEq(kOnCpusOnly));
  EXPECT_GT(CodeletBase::all().size(), 6 * kOnCpusOnly.size());
}

}  // namespace
}  // namespace omni::test

#endif
