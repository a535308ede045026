// These functions compare the first ten losses of trainings that may differ only by rounding.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace omni::test {

// Trainings use a small learning rate. With their own rates, which are meant for larger batches,
// most nets diverge in the first steps. Then two correct ways to compute soon differ much.
struct TenSteps {
  enum class Size { small, medium, large };  // what a played GPU, two cores, a GPU do in seconds

  const char* net;
  Size size = Size::large;
  const char* batch = "4";
  const char* rate = "1e-4";

  std::vector<std::string> arguments() const {
    return {"--max-batches",  "10", "--batch",         batch,
            "--subdivisions", "1",  "--learning-rate", rate};
  }
  std::string test_name() const {
    std::string name = net;
    std::erase(name, '-');
    return name;
  }
};

inline constexpr TenSteps kTenSteps[]{{"lenet", TenSteps::Size::small, "4", "0.02"},
                                      {"mlp", TenSteps::Size::small, "4", "0.02"},
                                      {"cifar10-quick", TenSteps::Size::small, "4", "0.01"},
                                      {"covtype-mlp", TenSteps::Size::small},
                                      {"w8a-mlp", TenSteps::Size::small},
                                      {"alexnet", TenSteps::Size::medium},
                                      {"caffenet", TenSteps::Size::medium},
                                      {"resnet-18-32", TenSteps::Size::medium},
                                      {"resnet-18"},
                                      {"resnet-50", TenSteps::Size::large, "8"},
                                      {"vgg-16"},
                                      {"darknet19"}};

// Returns the first step in which `losses` differ too much from `one`, or 0. `one` and `other` were
// computed in two correct ways. Ten times their largest difference up to the next step is allowed,
// and always 1e-5. After ten steps most nets differ by 1e-6 to 1e-5, VGG-16 by 5e-4. ResNet-50
// differs from its fourth step on by more than it learns, so only its first two steps are compared.
inline std::size_t first_step_beyond_rounding(const std::vector<double>& losses,
                                              const std::vector<double>& one,
                                              const std::vector<double>& other) {
  const auto apart = [](const std::vector<double>& a, const std::vector<double>& b,
                        std::size_t step) {
    return step < a.size() ? std::abs(a[step] - b[step]) / std::max(1.0, a[step]) : 0;
  };
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    most = std::max({most, apart(one, other, i), apart(one, other, i + 1)});
    if (!(apart(one, losses, i) <= std::max(1e-5, 10 * most))) return i + 1;  // NaN, too
  }
  return 0;
}

inline void expect_equal_but_for_rounding(const std::vector<double>& losses,
                                          const std::vector<double>& one,
                                          const std::vector<double>& other) {
  for (const auto* each : {&losses, &one, &other}) ASSERT_EQ(each->size(), 10u);
  EXPECT_EQ(first_step_beyond_rounding(losses, one, other), 0u)
      << testing::PrintToString(losses) << "\n"
      << testing::PrintToString(one) << "\n"
      << testing::PrintToString(other);
}

}  // namespace omni::test
