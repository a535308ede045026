// A Backend is an object of cuDNN's graph interface. Its attributes are set, then it is finalized,
// then its attributes may be read. It keeps the first error; objects that contain it take over this
// error. An attribute that cannot be read is also an error.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/cuda/check.hpp"

namespace omni::cudnn {

// Throws if memory is lacking. Returns false after any other error, so that the caller tries
// another engine, or lowers without cuDNN. cuDNN has many codes for what it cannot find, compile or
// load, and the other way may not need that. If the GPU has failed, a later call fails as well.
inline bool succeeded(cudnnStatus_t status) {
  check_memory(status, "preparing a convolution");
  return status == CUDNN_STATUS_SUCCESS;
}

// type_of() returns cuDNN's name of the type of an attribute.
constexpr auto type_of(const char*) { return CUDNN_TYPE_CHAR; }
constexpr auto type_of(const bool*) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto type_of(const float*) { return CUDNN_TYPE_FLOAT; }
constexpr auto type_of(const std::int32_t*) { return CUDNN_TYPE_INT32; }
constexpr auto type_of(const std::int64_t*) { return CUDNN_TYPE_INT64; }
constexpr auto type_of(void* const*) { return CUDNN_TYPE_VOID_PTR; }
constexpr auto type_of(const cudnnHandle_t*) { return CUDNN_TYPE_HANDLE; }
constexpr auto type_of(const cudnnDataType_t*) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto type_of(const cudnnConvolutionMode_t*) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr auto type_of(const cudnnPointwiseMode_t*) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto type_of(const cudnnNanPropagation_t*) { return CUDNN_TYPE_NAN_PROPOGATION; }
constexpr auto type_of(const cudnnBackendHeurMode_t*) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto type_of(const cudnnBackendKnobType_t*) { return CUDNN_TYPE_KNOB_TYPE; }
constexpr auto type_of(const cudnnBackendNumericalNote_t*) { return CUDNN_TYPE_NUMERICAL_NOTE; }
constexpr auto type_of(const cudnnBackendBehaviorNote_t*) { return CUDNN_TYPE_BEHAVIOR_NOTE; }

class Backend {
 public:
  explicit Backend(cudnnBackendDescriptorType_t type) {
    keep(cudnnBackendCreateDescriptor(type, &handle_));
  }
  ~Backend() {
    if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
  }
  Backend(Backend&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), status_(other.status_) {}
  Backend& operator=(Backend&&) = delete;

  void set(cudnnBackendAttributeName_t name, const auto& value) {
    set(name, type_of(&value), 1, &value);
  }
  template <class T, std::size_t count>
  void set(cudnnBackendAttributeName_t name, const std::array<T, count>& values) {
    set(name, type_of(values.data()), count, values.data());
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    set(name, type_of(values.data()), values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Backend& part) { set(name, std::vector{&part}); }
  void set(cudnnBackendAttributeName_t name, const std::vector<const Backend*>& parts) {
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const Backend* part : parts) {
      depend_on(*part);
      handles.push_back(part->handle_);
    }
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles.size(), handles.data());
  }
  void finalize() {
    if (usable()) keep(cudnnBackendFinalize(handle_));
  }

  // Returns the values of an attribute, but no more than `most`.
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, std::size_t most = 1) {
    std::vector<T> values(most);
    values.resize(get(name, type_of(values.data()), most, values.data()));
    return values;
  }
  std::vector<Backend> get_parts(cudnnBackendAttributeName_t name,
                                 cudnnBackendDescriptorType_t type, std::size_t most) {
    std::vector<Backend> parts;
    std::vector<cudnnBackendDescriptor_t> handles;  // cuDNN fills these objects
    for (std::size_t i = 0; i < most; ++i) handles.push_back(parts.emplace_back(type).handle_);
    const std::size_t count = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, handles.data());
    while (parts.size() > count) parts.pop_back();
    return parts;
  }

  bool usable() const { return status_ == CUDNN_STATUS_SUCCESS; }
  cudnnStatus_t status() const { return status_; }
  cudnnBackendDescriptor_t handle() const { return handle_; }
  void depend_on(const Backend& part) { keep(part.status_); }

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
           const void* values) {
    if (usable())
      keep(cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(count), values));
  }
  std::size_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::size_t most, void* values) {
    std::int64_t count = 0;
    if (usable())
      keep(cudnnBackendGetAttribute(handle_, name, type, static_cast<std::int64_t>(most), &count,
                                    values));
    return usable() ? std::min(most, static_cast<std::size_t>(count)) : 0;
  }
  void keep(cudnnStatus_t status) {
    if (usable()) status_ = status;
  }

  cudnnBackendDescriptor_t handle_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

}  // namespace omni::cudnn
