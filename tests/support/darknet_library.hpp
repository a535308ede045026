// Tests compare with Debian's libdarknet. It is opened at run time and declared by hand, so the
// build does not need the package. `network` stays opaque, so its layout does not matter.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace omni::test {

// These are libdarknet's C functions, as of 2018 (git20180914).
class DarknetLibrary {
 public:
  struct Picture {
    int w, h, c;
    float* data;  // channels first
  };

  static constexpr const char* kPath = "/usr/lib/darknet/libdarknet.so";

  static const DarknetLibrary& instance() {
    static const DarknetLibrary library;
    return library;
  }

  void* (*load_network)(char* cfg, char* weights, int clear);
  void (*free_network)(void* network);
  float* (*network_predict)(void* network, float* input);
  int (*network_inputs)(void* network);
  int (*network_outputs)(void* network);
  void (*save_weights)(void* network, char* path);
  Picture (*load_image_color)(char* path, int w, int h);  // 0: as it is
  Picture (*resize_min)(Picture picture, int side);
  Picture (*crop_image)(Picture picture, int left, int top, int w, int h);
  void (*free_image)(Picture picture);

  // If Darknet cannot read a file it calls exit, sometimes with code 0. This must not end the test
  // as a success.
  template <class Function, class... Arguments>
  auto call(Function function, Arguments... arguments) const {
    struct Inside {
      Inside() { inside_ = true; }
      ~Inside() { inside_ = false; }
    } const inside;
    return function(arguments...);
  }

 private:
  DarknetLibrary() : handle_(dlopen(kPath, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    find(load_network, "load_network");
    find(free_network, "free_network");
    find(network_predict, "network_predict");
    find(network_inputs, "network_inputs");
    find(network_outputs, "network_outputs");
    find(save_weights, "save_weights");
    find(load_image_color, "load_image_color");
    find(resize_min, "resize_min");
    find(crop_image, "crop_image");
    find(free_image, "free_image");
    std::atexit([] {
      if (inside_) _exit(EXIT_FAILURE);
    });
  }
  template <class Function>
  void find(Function& function, const char* name) {
    void* symbol = dlsym(handle_, name);
    if (symbol == nullptr) throw std::runtime_error(dlerror());
    function = reinterpret_cast<Function>(symbol);
  }
  static inline bool inside_ = false;
  void* handle_;  // never closed: it brings libraries that cannot be unloaded
};

// A DarknetNet is a net in libdarknet. Without a weights file it has Darknet's initial weights.
class DarknetNet {
 public:
  explicit DarknetNet(std::string cfg, std::string weights = "")
      : network_(library_.call(library_.load_network, cfg.data(), weights.data(), 0)) {}
  ~DarknetNet() { library_.call(library_.free_network, network_); }
  DarknetNet(const DarknetNet&) = delete;
  DarknetNet& operator=(const DarknetNet&) = delete;

  std::size_t inputs() const { return count(library_.network_inputs); }  // of one image
  std::size_t outputs() const { return count(library_.network_outputs); }

  // Returns the outputs for a whole batch of images, whose values are channels first.
  std::vector<float> predict(std::vector<float> images) {
    const std::size_t batch = images.size() / inputs();
    const float* output = library_.call(library_.network_predict, network_, images.data());
    return {output, output + batch * outputs()};
  }
  void save(std::string path) { library_.call(library_.save_weights, network_, path.data()); }

 private:
  std::size_t count(int (*function)(void*)) const {
    return static_cast<std::size_t>(library_.call(function, network_));
  }
  const DarknetLibrary& library_ = DarknetLibrary::instance();
  void* network_;
};

}  // namespace omni::test
