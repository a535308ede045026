// main of every test program: StarPU keeps its models in a private folder, and a hang ends in a
// failure.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "omni-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  setenv("STARPU_HOME", folder.c_str(), 1);
  setenv("STARPU_WATCHDOG_TIMEOUT", "60000000", 1);  // us
  setenv("STARPU_WATCHDOG_CRASH", "1", 1);
  setenv("STARPU_SILENT", "1", 1);
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
